#include "flotilla/data/loss_mask.hpp"

#include <gtest/gtest.h>

#include "flotilla/data/sampler.hpp"
#include "token_files.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

std::filesystem::path write_mask(const std::filesystem::path& path, std::int64_t tokens, const std::vector<TokenRun>& runs) {
  std::size_t next = 0;
  write_loss_mask(path, tokens, [&](TokenRun& run) { return next < runs.size() && (run = runs[next++], true); });
  return path;
}

class Masks : public ::testing::Test {
 protected:
  /// NAME.bin and NAME.idx of tokens 0, 1, 2, ...
  std::filesystem::path pair(const std::string& name, std::size_t tokens) const {
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < tokens; ++i) ids.push_back(static_cast<std::int64_t>(i));
    const auto bytes = megatron_bytes<std::uint16_t>(ids, {static_cast<std::int32_t>(tokens)}, 8);
    write(folder_ / (name + ".idx"), bytes.index);
    return write(folder_ / (name + ".bin"), bytes.tokens);
  }
  const TemporaryFolder folder_;
};

/// Every run that begins or ends anywhere in a byte, against a list of bools.
TEST_F(Masks, SayWhatTheRunsLeaveOut) {
  for (std::int64_t first = 0; first < 18; ++first)
    for (std::int64_t last = first; last <= 18; ++last) {
      const auto path = write_mask(folder_ / "a.mask", 19, {{first, last}});
      EXPECT_EQ(std::filesystem::file_size(path), 24u + 3);
      const auto mask = LossMask::open(path, 19);
      std::int64_t counted = 0;
      for (std::int64_t i = 0; i < 19; ++i) {
        EXPECT_EQ(mask.counts(i), i < first || i >= last) << i;
        EXPECT_EQ(mask.count(0, i), counted);
        EXPECT_EQ(mask.any(0, i), counted > 0);
        counted += mask.counts(i);
      }
      EXPECT_EQ(mask.count(first, last), 0);
      EXPECT_EQ(mask.count(0, 19), 19 - (last - first));
    }
}

TEST_F(Masks, OfManyRuns) {
  std::vector<TokenRun> runs;
  for (std::int64_t i = 0; i < 3'000'000; i += 7) runs.push_back({i, i + i % 5});
  const auto mask = LossMask::open(write_mask(folder_ / "a.mask", 3'000'010, runs), 3'000'010);
  std::int64_t left_out = 0;
  for (const auto& run : runs) {
    left_out += run.last - run.first;
    EXPECT_TRUE(mask.count(run.first, run.last) == 0 && mask.counts(run.last)) << run.first;
  }
  EXPECT_EQ(mask.count(0, 3'000'010), 3'000'010 - left_out);
}

TEST_F(Masks, TheSamplerMarksTargets) {
  const auto tokens = pair("a", 41);
  const auto before = TokenFile::open(tokens).fingerprint();
  write_mask(folder_ / "a.mask", 41, {{0, 10}, {25, 26}});
  EXPECT_NE(TokenFile::open(tokens).fingerprint(), before) << "a run does not go on with another mask";
  CorpusOptions files;
  files.training = {tokens};
  files.validation_fraction = 0;
  const Sampler sampler{open_corpora(files).training, {.length = 40, .global_batch = 1, .vocabulary = 50}};
  std::vector<std::int32_t> read(41);
  sampler.read(sampler.locate(0, 0), read);
  for (std::int32_t i = 0; i < 41; ++i) EXPECT_EQ(read[static_cast<std::size_t>(i)], i < 10 || i == 25 ? ~i : i);
}

TEST_F(Masks, HostileOnesAreNamed) {
  const auto tokens = pair("a", 41);
  const auto good = tests::content(write_mask(folder_ / "good.mask", 41, {{3, 4}}));
  const auto refuse = [&](const std::string& bytes, const std::string& words) {
    write(folder_ / "a.mask", bytes);
    tests::expect_refused([&] { TokenFile::open(tokens); }, "a.mask", words);
  };
  auto other = good;
  refuse("my own notes of which files I have", "byte 0: expected a loss mask's magic");
  refuse(good.substr(0, 23), "byte 23: the file ends here");
  refuse(good + "x", "byte 16: 41 tokens need a file of 30 bytes, but it has 31");
  refuse(good.substr(0, 29), "it has 29");
  other[8] = 2;
  refuse(other, "byte 8: expected version 1");
  other = good;
  other[16] = 40;
  refuse(other, "byte 16: a mask of 40 tokens; expected 41");
  other[23] = static_cast<char>(0xff);
  refuse(other, "expected 41");
  refuse("", "a.mask");
}

TEST_F(Masks, OneThatIsCutIsNoticed) {
  const auto tokens = pair("a", 41);
  const auto path = write_mask(folder_ / "a.mask", 41, {});
  const auto file = TokenFile::open(tokens);
  std::filesystem::resize_file(path, 24);
  std::vector<std::int32_t> read(41);
  tests::expect_refused([&] { file.mask()->mark(0, read); }, "a.mask");
}

}  // namespace
}  // namespace flotilla::data
