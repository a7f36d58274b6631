#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

/// Files as the format's description says, written by hand.
namespace flotilla::safetensors {

/// The file of this header and these bytes.
inline std::string file_bytes(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace flotilla::safetensors
