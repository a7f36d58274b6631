#include "flotilla/safetensors/folder.hpp"

#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"

namespace flotilla::safetensors {
namespace {

namespace fs = std::filesystem;

/// The file that holds a tensor, by the index; a plain name, so that it is in the same folder.
std::string shard_of(const files::Json& place) {
  const std::string name = place.as_string();
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
    place.refuse("expected the name of a file in the same folder, got " + in_quotes(name));
  return name;
}

/// By tensor the name of its file.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const auto map = files::Json::read(path).at("weight_map");
  std::map<std::string, std::string> shards;
  for (const auto& name : map.keys()) shards.emplace(name, shard_of(map.at(name)));
  if (shards.empty()) map.refuse("expected the files of the tensors, by name");
  return shards;
}

/// The index lists what is in the shards, no more and no less.
void require_listed(const SafetensorsFile& file, const std::map<std::string, std::string>& shards, const fs::path& index) {
  for (const auto& entry : file.entries()) {
    const auto listed = shards.find(entry.name);
    FLOTILLA_REQUIRE(listed != shards.end() && file.path().filename() == listed->second, ErrorKind::bad_input, file.path().string(),
                     ": holds tensor ", in_quotes(entry.name), ", which ", index.filename().string(),
                     listed == shards.end() ? " does not list" : " lists for " + in_quotes(listed->second));
  }
}

}  // namespace

Folder Folder::open(const fs::path& path) {
  Folder folder;
  folder.path_ = path;
  const auto index = path / index_name;
  std::map<std::string, std::string> shards;
  if (files::facts_of(path / single_file_name)) {
    folder.files_.push_back(SafetensorsFile::open(path / single_file_name));
  } else {
    FLOTILLA_REQUIRE(files::facts_of(index), ErrorKind::bad_input, path.string(), ": holds neither ", single_file_name, " nor ", index_name,
                     "; expected the folder of a Hugging Face model with weights in safetensors");
    shards = read_index(index);
    std::map<std::string, int> names;
    for (const auto& [tensor, shard] : shards) ++names[shard];
    for (const auto& [shard, tensors] : names) folder.files_.push_back(SafetensorsFile::open(path / shard));
    for (const auto& file : folder.files_) require_listed(file, shards, index);
  }
  for (const auto& file : folder.files_)
    for (const auto& entry : file.entries()) folder.tensors_.emplace(entry.name, Found{&file, &entry});
  for (const auto& [tensor, shard] : shards)
    FLOTILLA_REQUIRE(folder.find(tensor), ErrorKind::bad_input, index.string(), ": /weight_map: tensor ", in_quotes(tensor), " is not in ",
                     in_quotes(shard));
  return folder;
}

std::vector<std::string> Folder::other_files() const {
  std::set<std::string> read;
  for (const auto& file : files_) read.insert(file.path().filename().string());
  if (!read.contains(single_file_name)) read.insert(index_name);
  std::set<std::string> others;
  std::error_code none;  // who reads the folder has opened files of it
  for (const auto& entry : fs::directory_iterator{path_, none}) {
    const auto name = entry.path().filename().string();
    if ((name.ends_with(".safetensors") || name == index_name) && !read.contains(name)) others.insert(name);
  }
  return {others.begin(), others.end()};
}

Found Folder::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? Found{} : found->second;
}

}  // namespace flotilla::safetensors
