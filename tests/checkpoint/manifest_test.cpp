#include "flotilla/checkpoint/manifest.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/holding.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/files/plan_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::checkpoint::manifest_test {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.step = 120;
  manifest.optimizer_steps = 119;
  manifest.sequences = 120 * 64;
  manifest.seed = 0xffffffffffffffffu;
  manifest.training = "length = 64\nbatch = \"64\"";
  manifest.data_fingerprint = "00ff";
  manifest.plan = files::plan_to_json(one_rank_plan(odd_model()));
  manifest.provenance = {{"version", "0.1.0"}, {"hosts", "n1 n2"}, {"cpu", "a \"quoted\" one"}};
  manifest.tensors = "0123456789abcdef";
  manifest.files = {{"state.h5", {123456789012}, 0xdeadbeefu}};
  return manifest;
}

std::string refusal_of(const std::string& text) {
  return tests::refusal([&] { manifest_from_json(text, "run/step-1/manifest.json"); });
}

/// The text with the checksum that it then has.
std::string sealed(std::string text) {
  const std::string key = "\"checksum_crc32c\": \"";
  const auto at = text.rfind(key) + key.size();
  text.replace(at, 8, "00000000");
  return text.replace(at, 8, hex(crc32c(std::as_bytes(std::span{text}))).substr(8));
}

/// The example with the first `from` replaced.
std::string changed(const std::string& from, const std::string& to) {
  auto text = manifest_to_json(example());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << text;
  return sealed(text.replace(at, from.size(), to));
}

TEST(Manifest, ReadsBackAsWritten) {
  auto manifest = example();
  EXPECT_EQ(manifest_from_json(manifest_to_json(manifest), "x"), manifest);
  manifest.loss_scale = LossScale{32768, 1234};
  EXPECT_EQ(manifest_from_json(manifest_to_json(manifest), "x"), manifest);
  manifest.plan.clear();
  manifest.provenance.clear();
  EXPECT_EQ(manifest_from_json(manifest_to_json(manifest), "x"), manifest);
}

TEST(Manifest, KeepsThePlanReadable) {
  const auto read = manifest_from_json(manifest_to_json(example()), "x");
  EXPECT_EQ(files::plan_from_json(read.plan, "x"), one_rank_plan(odd_model()));
}

TEST(Manifest, RefusesWithFileAndPlace) {
  const auto names = [](const std::string& message, const std::string& place) {
    EXPECT_NE(message.find("run/step-1/manifest.json"), std::string::npos) << message;
    EXPECT_NE(message.find(place), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  names(refusal_of(""), "manifest.json");
  names(refusal_of("{\"format\": "), "manifest.json");
  names(refusal_of(changed("flotilla-checkpoint", "flotilla-plan")), "/format");
  names(refusal_of(changed("\"version\": 2", "\"version\": 1")), "/version");
  names(refusal_of(changed("\"step\": 120", "\"step\": -1")), "/step");
  names(refusal_of(changed("\"step\": 120", "\"step\": 100000000001")), "/step");
  names(refusal_of(changed("\"optimizer_steps\": 119", "\"optimizer_steps\": 9223372036854775807")), "/optimizer_steps");
  names(refusal_of(changed("\"step\"", "\"stepp\"")), "step");
  names(refusal_of(changed("18446744073709551615", "18446744073709551616")), "/seed");
  names(refusal_of(changed("18446744073709551615", "12x")), "/seed");
  names(refusal_of(changed("deadbeef", "deadbeeg")), "/files/0/checksums_crc32c");
  names(refusal_of(changed("123456789012", "\"many\"")), "/files/0/size_bytes");
  names(refusal_of(changed("\"0.1.0\"", "1")), "/provenance/version");
}

TEST(Manifest, EveryFlippedBitIsRefused) {
  const auto text = manifest_to_json(example());
  EXPECT_EQ(manifest_from_json(sealed(text), "x"), example());
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 7)));
    SCOPED_TRACE(at);
    refusal_of(flipped);
  }
}

TEST(Manifest, RefusesRangesOutsideTheFile) {
  for (const char* ranges : {"[1]", "[0, 8, 4, 8]", "[123456789012, 1]", "[-1, 3]", "[8, 9223372036854775807]"})
    tests::expect_contains(refusal_of(changed("\"tensor_ranges\": []", std::string{"\"tensor_ranges\": "} + ranges)), "/tensor_ranges");
}

TEST(Manifest, RefusesTheFolderOfAnotherStep) {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "step-121");
  std::ofstream{folder / "step-121" / "manifest.json"} << manifest_to_json(example());
  tests::expect_refused([&] { read_manifest(folder / "step-121"); }, "step-121/manifest.json: /step", "120");
}

TEST(Manifest, EveryTruncationIsRefused) {
  const auto text = manifest_to_json(example());
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    SCOPED_TRACE(size);
    refusal_of(text.substr(0, size));
  }
}

TEST(Manifest, ReadNamesTheFile) {
  const tests::TemporaryFolder folder;
  EXPECT_THROW(read_manifest(folder.path()), Error);
  std::ofstream{folder / "manifest.json"} << manifest_to_json(example());
  EXPECT_EQ(read_manifest(folder.path()), example());
}

TEST(Manifest, APlanThatIsNotJsonIsRefused) {
  auto manifest = example();
  manifest.plan = "{";
  EXPECT_THROW(manifest_to_json(manifest), Error);
}

}  // namespace
}  // namespace flotilla::checkpoint::manifest_test
