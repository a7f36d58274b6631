#include "flotilla/safetensors/folder.hpp"

#include <gtest/gtest.h>

#include "bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::safetensors {
namespace {

using tests::expect_refused;

std::string one_tensor(const std::string& name) {
  return file_bytes("{\"" + name + "\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}", "1234");
}

TEST(Folder, FindsTensorsInOneFile) {
  const tests::TemporaryFolder folder;
  folder.write(single_file_name, one_tensor("a"));
  const auto weights = Folder::open(folder);
  EXPECT_EQ(weights.files().size(), 1u);
  EXPECT_EQ(weights.find("a").entry->name, "a");
  EXPECT_FALSE(weights.find("b"));
}

TEST(Folder, FindsTensorsInShards) {
  const tests::TemporaryFolder folder;
  folder.write("one.safetensors", one_tensor("a"));
  folder.write("two.safetensors", one_tensor("b"));
  folder.write(index_name, R"({"metadata": {}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  const auto weights = Folder::open(folder);
  EXPECT_EQ(weights.find("b").file->path().filename(), "two.safetensors");
  EXPECT_EQ(weights.find("a").file->path().filename(), "one.safetensors");
}

TEST(Folder, RefusesIndexAndShardsThatDisagree) {
  const tests::TemporaryFolder folder;
  folder.write("one.safetensors", one_tensor("a"));
  folder.write("two.safetensors", one_tensor("a"));
  const auto open_with = [&](const std::string& map) {
    folder.write(index_name, R"({"weight_map": )" + map + "}");
    Folder::open(folder);
  };
  expect_refused([&] { open_with(R"({"a": "one.safetensors", "b": "one.safetensors"})"); }, "tensor 'b' is not in 'one.safetensors'");
  expect_refused([&] { open_with(R"({"b": "one.safetensors"})"); }, "one.safetensors: holds tensor 'a'", "does not list");
  expect_refused([&] { open_with(R"({"a": "one.safetensors", "b": "two.safetensors"})"); }, "two.safetensors: holds tensor 'a'",
                 "lists for 'one.safetensors'");
  expect_refused([&] { open_with(R"({"a": "../one.safetensors"})"); }, "/weight_map/a", "in the same folder");
  tests::expect_absent([&] { open_with(R"({"a": "absent.safetensors"})"); }, "absent.safetensors");
  expect_refused([&] { open_with("{}"); }, "/weight_map");
}

TEST(Folder, SaysWhatAFolderShouldHold) {
  const tests::TemporaryFolder folder;
  expect_refused([&] { Folder::open(folder); }, folder.path().string(), "neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace
}  // namespace flotilla::safetensors
