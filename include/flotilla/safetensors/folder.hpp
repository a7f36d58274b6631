#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/safetensors/file.hpp"

namespace flotilla::safetensors {

inline constexpr const char* single_file_name = "model.safetensors";
inline constexpr const char* index_name = "model.safetensors.index.json";

/// A tensor and the file that holds it.
struct Found {
  const SafetensorsFile* file = nullptr;
  const Entry* entry = nullptr;
  explicit operator bool() const { return entry != nullptr; }
};

/// The weights of a model's folder: model.safetensors, or the shards that model.safetensors.index.json lists. Local.
class Folder {
 public:
  /// Reads all headers. Throws Error{bad_input} as SafetensorsFile::open() does, and where index and shards disagree, a tensor occurs
  /// twice, or the index names a file outside of the folder.
  static Folder open(const std::filesystem::path&);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  Found find(std::string_view name) const;
  /// Names of what else in the folder is made of weights: another file of tensors, an index beside the one file, an adapter.
  std::vector<std::string> other_files() const;

 private:
  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Found, std::less<>> tensors_;
};

}  // namespace flotilla::safetensors
