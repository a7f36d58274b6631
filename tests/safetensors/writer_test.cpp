#include "flotilla/safetensors/writer.hpp"

#include <gtest/gtest.h>

#include "flotilla/files/json.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::safetensors {
namespace {

const std::vector<Declared> declared{{"first", {3, 2}}, {"second", {}}, {"third", {2}}};
const std::vector<float> values{1, -2, 0.5, 0, 65504, 0x1p-14f, 7, 8, 9};

std::vector<float> read_back(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  std::vector<float> all;
  for (const auto& entry : file.entries()) {
    std::vector<float> part(static_cast<std::size_t>(entry.elements()));
    file.read(entry, 0, 1, part);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(Writer, WritesWhatTheReaderReads) {
  const tests::TemporaryFolder folder;
  for (const auto precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const auto path = folder / to_string(precision);
    Writer writer{path, declared, precision};
    writer.write(std::span{values}.first(4));
    writer.write(std::span{values}.subspan(4));
    writer.close();
    const auto file = SafetensorsFile::open(path);
    ASSERT_EQ(file.entries().size(), declared.size());
    for (std::size_t i = 0; i < declared.size(); ++i) {
      EXPECT_EQ(file.entries()[i].name, declared[i].name);
      EXPECT_EQ(file.entries()[i].shape, declared[i].shape);
      EXPECT_EQ(file.entries()[i].precision, precision);
    }
    EXPECT_EQ(file.entries().front().first % 8, 0) << "readers map the elements in place";
    auto expected = values;
    if (precision == Precision::bf16) expected[4] = 65536;
    EXPECT_EQ(read_back(path), expected) << to_string(precision);
  }
}

TEST(Writer, RefusesWhatAPrecisionCannotHold) {
  const tests::TemporaryFolder folder;
  Writer writer{folder / "x", {{"a", {1}}}, Precision::fp16};
  const float large = 70000;
  tests::expect_refused([&] { writer.write(std::span{&large, 1}); }, "a weight is 70000", "fp16");
}

TEST(Index, ListsFilesByTensor) {
  const tests::TemporaryFolder folder;
  Writer one{folder / "one.safetensors", {{"a", {1}}}, Precision::fp32};
  one.write(std::vector<float>{3});
  one.close();
  folder.write(index_name, index_text({{"a", "one.safetensors"}}, 4));
  EXPECT_TRUE(Folder::open(folder).find("a"));
  EXPECT_EQ(files::Json::read(folder / index_name).at("metadata").get_int("total_size"), 4);
}

}  // namespace
}  // namespace flotilla::safetensors
