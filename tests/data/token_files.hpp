#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

/// Writes small token files of every format, byte by byte, without the code under test.
namespace flotilla::data::testing {

using tests::expect_contains;
using tests::refusal;
using tests::TemporaryFolder;

template <class T>
void append(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

template <class T>
std::string elements(const std::vector<std::int64_t>& tokens) {
  std::string bytes;
  for (const auto token : tokens) append(bytes, static_cast<T>(token));
  return bytes;
}

inline std::string llmc_bytes(const std::vector<std::int64_t>& tokens) {
  std::string bytes;
  for (const std::int32_t value : {20240520, 1, static_cast<std::int32_t>(tokens.size())}) append(bytes, value);
  bytes.resize(1024, '\0');
  return bytes + elements<std::uint16_t>(tokens);
}

inline std::string npy_header(int major, const std::string& dictionary) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(major);
  bytes += '\0';
  const auto start = bytes.size() + (major == 1 ? 2 : 4);
  std::string padded = dictionary;
  while ((start + padded.size() + 1) % 64 != 0) padded += ' ';
  padded += '\n';
  if (major == 1)
    append(bytes, static_cast<std::uint16_t>(padded.size()));
  else
    append(bytes, static_cast<std::uint32_t>(padded.size()));
  return bytes + padded;
}

inline std::string npy_dictionary(const std::string& descr, std::size_t count) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
}

struct MegatronBytes {
  std::string index, tokens;
};

/// `lengths` cuts the tokens into sequences; every sequence is a document.
template <class T>
MegatronBytes megatron_bytes(const std::vector<std::int64_t>& tokens, const std::vector<std::int32_t>& lengths, int code) {
  MegatronBytes bytes{std::string{"MMIDIDX\0\0", 9}, elements<T>(tokens)};
  append(bytes.index, std::uint64_t{1});
  append(bytes.index, static_cast<std::uint8_t>(code));
  append(bytes.index, static_cast<std::uint64_t>(lengths.size()));
  append(bytes.index, static_cast<std::uint64_t>(lengths.size() + 1));
  for (const auto length : lengths) append(bytes.index, length);
  std::int64_t pointer = 0;
  for (const auto length : lengths) {
    append(bytes.index, pointer);
    pointer += length * static_cast<std::int64_t>(sizeof(T));
  }
  for (std::size_t i = 0; i <= lengths.size(); ++i) append(bytes.index, static_cast<std::int64_t>(i));
  return bytes;
}

inline std::filesystem::path write(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);  // a file cut to nothing and written anew is flushed to the disk by some file systems: slow
  std::ofstream out{path, std::ios::binary};
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw std::runtime_error{"cannot write " + path.string()};
  return path;
}

/// 0, 1, 2, ... below `limit`, in a fixed irregular order.
inline std::vector<std::int64_t> some_tokens(std::size_t count, std::int64_t limit) {
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int64_t>(i * 7919 + i / 3) % limit);
  return tokens;
}

}  // namespace flotilla::data::testing
