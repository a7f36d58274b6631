#include "flotilla/safetensors/file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::safetensors {
namespace {

using tests::expect_contains;
using tests::expect_refused;

std::vector<float> read(const SafetensorsFile& file, const Entry& entry) {
  std::vector<float> values(static_cast<std::size_t>(entry.elements()));
  file.read(entry, 0, 1, values);
  return values;
}

TEST(File, ReadsTheTypesOfWeights) {
  const tests::TemporaryFolder folder;
  const auto header = R"({"b": {"dtype": "BF16", "shape": [2], "data_offsets": [24, 28]},
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "c": {"dtype": "F16", "shape": [1, 1], "data_offsets": [28, 30]}})";
  const auto data = bytes_of<float>({1, 2, 3, 4, 5, -6.5}) + bytes_of<std::uint16_t>({0x3f80, 0xc000}) + bytes_of<std::uint16_t>({0x3c01});
  const auto file = SafetensorsFile::open(folder.write("x.safetensors", file_bytes(header, data)));
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read(file, file.entries()[0]), (std::vector<float>{1, 2, 3, 4, 5, -6.5}));
  EXPECT_EQ(read(file, file.entries()[1]), (std::vector<float>{1, -2}));
  EXPECT_EQ(read(file, file.entries()[2]), (std::vector<float>{1 + 0x1p-10f}));
  std::vector<float> column(2);
  EXPECT_EQ(file.read(file.entries()[0], 2, 3, column), 6.5f) << "the greatest magnitude";
  EXPECT_EQ(column, (std::vector<float>{3, -6.5}));
  file.forget();
  EXPECT_EQ(read(file, file.entries()[1]), (std::vector<float>{1, -2}));
}

TEST(File, SaysTheGreatestMagnitudeThatItRead) {
  const tests::TemporaryFolder folder;
  const float infinity = std::numeric_limits<float>::infinity();
  const auto greatest = [&](const char* type, const std::string& data, std::int64_t first, std::int64_t stride = 1) {
    const auto size = std::to_string(data.size()), count = std::to_string(type == std::string{"F32"} ? data.size() / 4 : data.size() / 2);
    const auto header =
        R"({"a": {"dtype": ")" + std::string{type} + R"(", "shape": [)" + count + R"(], "data_offsets": [0, )" + size + "]}}";
    const auto file = SafetensorsFile::open(folder.write("x.safetensors", file_bytes(header, data)));
    std::vector<float> values(static_cast<std::size_t>((file.entries().front().elements() - first + stride - 1) / stride));
    return file.read(file.entries().front(), first, stride, values);
  };
  const auto fp32 = bytes_of<float>({-infinity, std::nanf(""), -3, 2, -0.0f, 0});
  EXPECT_TRUE(std::isnan(greatest("F32", fp32, 0)));
  EXPECT_EQ(greatest("F32", fp32, 0, 2), infinity);
  EXPECT_EQ(greatest("F32", fp32, 2), 3);
  EXPECT_EQ(greatest("F32", fp32, 4), 0);
  const auto halves = bytes_of<std::uint16_t>({0x7f80, 0xffc0, 0xfc00, 0xfc01, 0x8000, 0xbc00});  // of bf16, then of fp16
  EXPECT_TRUE(std::isnan(greatest("BF16", halves, 0)));
  EXPECT_EQ(greatest("BF16", bytes_of<std::uint16_t>({0xc000, 0xff80}), 0), infinity);
  EXPECT_TRUE(std::isnan(greatest("F16", halves, 2)));
  EXPECT_EQ(greatest("F16", halves, 2, 4), infinity);
  EXPECT_EQ(greatest("F16", halves, 4), 1);
}

TEST(File, KnowsTypesThatItDoesNotRead) {
  const tests::TemporaryFolder folder;
  const auto file = SafetensorsFile::open(
      folder.write("mask.safetensors", file_bytes(R"({"mask": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}})", "abc")));
  EXPECT_FALSE(file.entries().front().precision);
}

TEST(File, RefusesAFileThatIsCutWhileItIsOpen) {
  const tests::TemporaryFolder folder;
  const auto path =
      folder.write("x.safetensors", file_bytes(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "12345678"));
  const auto file = SafetensorsFile::open(path);
  file.require_whole();
  std::filesystem::resize_file(path, 40);
  expect_refused([&] { file.require_whole(); }, path, "byte 40");
}

struct Hostile {
  std::string name, header, data, expected;
};
void PrintTo(const Hostile& h, std::ostream* out) { *out << h.name; }

const std::vector<Hostile> hostile{
    {"no_json", "nonsense", "", "x.safetensors:1:2: not JSON"},
    {"duplicate",
     R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
     "12345678", "a"},
    {"no_object", R"({"a": 3})", "", "/a"},
    {"foreign_key", R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "where": "elsewhere"}})", "1234", "where"},
    {"unknown_type", R"({"a": {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]}})", "1234", "/a/dtype"},
    {"wrong_size", R"({"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 4]}})", "1234",
     "/a/data_offsets: 4 bytes; the shape has 2"},
    {"negative_extent", R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", "1234", "/a/shape/0"},
    {"huge_extents", R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}})", "", "/a/shape"},
    {"beyond_the_end", R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "1234", "/a/data_offsets/1"},
    {"backwards", R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", "1234", "/a/data_offsets/1"},
    {"three_offsets", R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2, 4]}})", "1234", "/a/data_offsets"},
    {"overlap",
     R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
     "12345678", "tensor 'b' begins at byte"},
    {"gap", R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", "12345678", "after a gap"},
    {"left_over", R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", "12345678", "the tensors end at byte"}};

class HostileFile : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileFile, IsRefusedWithItsPlace) {
  const tests::TemporaryFolder folder;
  const auto path = folder.write("x.safetensors", file_bytes(GetParam().header, GetParam().data));
  expect_refused([&] { SafetensorsFile::open(path); }, path, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Headers, HostileFile, ::testing::ValuesIn(hostile), [](const auto& h) { return h.param.name; });

TEST(File, RefusesLengthsThatLie) {
  const tests::TemporaryFolder folder;
  expect_refused([&] { SafetensorsFile::open(folder.write("short", "1234")); }, "ends at byte 4");
  expect_refused([&] { SafetensorsFile::open(folder.write("huge", std::string(8, '\xff') + "{}")); }, "byte 0", "no safetensors file");
  expect_refused([&] { SafetensorsFile::open(folder.write("cut", file_bytes("{}", "").substr(0, 9))); }, "byte 0", "it is cut");
  expect_refused([&] { SafetensorsFile::open(folder.path()); }, "is a folder; expected a safetensors file");
}

}  // namespace
}  // namespace flotilla::safetensors
