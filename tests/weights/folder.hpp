#pragma once
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "flotilla/base/text.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/safetensors/file.hpp"
#include "reference/reference_numbers.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::tests {

/// A folder with the weights that Hugging Face has written of a reference model, and its config.json.
class ModelFolder : public TemporaryFolder {
 public:
  explicit ModelFolder(const std::string& model) {
    std::filesystem::copy_file(reference_file(model + ".safetensors"), *this / "model.safetensors");
    std::filesystem::copy_file(reference_file(model + ".config.json"), *this / "config.json");
  }
};

/// Another value for an element of a tensor in fp32.
inline void put(const std::filesystem::path& file, const std::string& tensor, std::int64_t element, float value) {
  const auto opened = safetensors::SafetensorsFile::open(file);
  const auto& entries = opened.entries();
  const auto entry = std::ranges::find(entries, tensor, &safetensors::Entry::name);
  if (entry == entries.end()) throw std::invalid_argument{"no tensor " + tensor};
  std::fstream out{file, std::ios::in | std::ios::out | std::ios::binary};
  out.seekp(entry->first + element * std::int64_t{sizeof value});
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Another tensor of fp32 behind those of a file.
inline void append(const std::filesystem::path& file, const std::string& tensor, const std::vector<std::int64_t>& shape,
                   const std::vector<float>& values) {
  const auto bytes = files::read_text(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto data = bytes.substr(sizeof length + length);
  const auto end = data.size() + values.size() * sizeof(float);
  auto header = bytes.substr(sizeof length, length);
  header.resize(header.rfind('}'));
  header += text(", \"", tensor, "\": {\"dtype\": \"F32\", \"shape\": ", files::json_array(shape), ", \"data_offsets\": [", data.size(),
                 ", ", end, "]}}");
  length = header.size();
  files::write_text(file, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data +
                              std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

}  // namespace flotilla::tests
