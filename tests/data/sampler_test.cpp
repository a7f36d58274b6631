#include "flotilla/data/sampler.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "data/token_files.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

/// Files of the given numbers of tokens; token i of file f is 1000 * f + i modulo 60000.
class SamplerTest : public ::testing::Test {
 protected:
  Corpus corpus(const std::vector<std::size_t>& sizes) {
    CorpusOptions options{{}, {}, Format::raw_uint16, 0};
    for (std::size_t f = 0; f < sizes.size(); ++f) {
      std::vector<std::int64_t> tokens(sizes[f]);
      std::iota(tokens.begin(), tokens.end(), static_cast<std::int64_t>(1000 * f));
      for (auto& token : tokens) token %= 60000;
      options.training.push_back(write(folder_ / ("file" + std::to_string(f)), elements<std::uint16_t>(tokens)));
    }
    return open_corpora(options).training;
  }
  Sampler sampler(const std::vector<std::size_t>& sizes, int length, int batch, std::uint64_t seed = 1) {
    return Sampler{corpus(sizes), {seed, length, batch, 60000}};
  }
  TemporaryFolder folder_;
};

TEST_F(SamplerTest, UsesEverySequenceOfAnEpochExactlyOnce) {
  for (const int batch : {1, 3, 8, 50, 1000}) {
    const auto s = sampler({1000, 37, 333}, 10, batch);
    const auto n = s.sequences_per_epoch();
    EXPECT_EQ(n, (99 - 1) + 3 + (33 - 1));
    std::map<std::int64_t, std::set<std::int64_t>> seen;
    const auto steps = 3 * n / batch + 2;
    for (std::int64_t step = 0; step < steps; ++step) {
      for (int i = 0; i < batch; ++i) {
        const auto where = s.locate(step, i);
        EXPECT_EQ(where.epoch, (step * batch + i) / n);
        EXPECT_TRUE(seen[where.epoch].insert(where.sequence).second);
      }
    }
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(static_cast<std::int64_t>(seen[epoch].size()), n) << "epoch " << epoch;
  }
}

TEST_F(SamplerTest, StraddlesEpochsWithinAStep) {
  const auto s = sampler({101}, 10, 7);
  ASSERT_EQ(s.sequences_per_epoch(), 10);
  std::vector<std::int64_t> epochs;
  for (int i = 0; i < 7; ++i) epochs.push_back(s.locate(1, i).epoch);
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 1}));
}

TEST_F(SamplerTest, SequencesOfAnEpochCoverTheirSectionsWithoutGapOrOverlap) {
  const auto s = sampler({640, 100, 64}, 13, 1);
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    std::map<int, std::vector<std::int64_t>> starts;
    for (std::int64_t i = 0; i < s.sequences_per_epoch(); ++i) {
      const auto where = s.locate(epoch * s.sequences_per_epoch() + i, 0);
      starts[where.section].push_back(where.first);
    }
    ASSERT_EQ(starts.size(), 3u);
    for (auto& [section, list] : starts) {
      std::ranges::sort(list);
      for (std::size_t i = 0; i + 1 < list.size(); ++i) EXPECT_EQ(list[i + 1], list[i] + 13);
      EXPECT_GE(list.front(), 0);
      EXPECT_LE(list.back() + 14, s.sources()[0].corpus.sections()[static_cast<std::size_t>(section)].last);
    }
  }
}

TEST_F(SamplerTest, ShiftsByAnyOffsetWhereThereAreManySequences) {
  const auto s = sampler({1000, 100}, 7, 1);
  std::set<std::int64_t> long_offsets, short_offsets;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    for (std::int64_t i = 0; i < s.sequences_per_epoch(); i += 5) {
      const auto where = s.locate(epoch * s.sequences_per_epoch() + i, 0);
      (where.section == 0 ? long_offsets : short_offsets).insert(where.first % 7);
    }
  }
  EXPECT_EQ(long_offsets, (std::set<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(short_offsets, (std::set<std::int64_t>{0, 1}));  // 100 tokens: 14 sequences of 7 and a last target leave 1 over
}

TEST_F(SamplerTest, ReadsTheTokensOfItsPlaceBitExactly) {
  const auto s = sampler({5000, 800, 90}, 20, 16);
  std::vector<std::int32_t> tokens(21);
  for (std::int64_t step = 0; step < 60; ++step) {
    for (int i = 0; i < 16; ++i) {
      const auto where = s.locate(step, i);
      s.read(where, tokens);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        ASSERT_EQ(tokens[t], (1000 * where.section + where.first + static_cast<std::int64_t>(t)) % 60000);
      }
    }
  }
}

/// All tokens of the steps, read by `ranks` samplers of their own; rank r reads the sequences that `share` deals to it, backwards.
std::vector<std::vector<std::int32_t>> read_by_ranks(const std::function<Sampler()>& make, int steps, const std::vector<int>& share) {
  std::vector<std::vector<std::int32_t>> all;
  int first = 0;
  const int batch = make().options().global_batch;
  all.resize(static_cast<std::size_t>(steps * batch));
  for (const int count : share) {
    const auto s = make();
    for (int step = steps - 1; step >= 0; --step) {
      for (int i = first + count - 1; i >= first; --i) {
        auto& tokens = all[static_cast<std::size_t>(step * batch + i)];
        tokens.resize(static_cast<std::size_t>(s.options().length) + 1);
        s.read(s.locate(step, i), tokens);
      }
    }
    first += count;
  }
  EXPECT_EQ(first, batch);
  return all;
}

TEST_F(SamplerTest, RanksTogetherReadExactlyTheGlobalBatchHoweverItIsSplit) {
  const auto make = [&] { return sampler({3000, 500}, 16, 12); };
  const auto alone = read_by_ranks(make, 30, {12});
  EXPECT_EQ(read_by_ranks(make, 30, {5, 4, 3}), alone);
  EXPECT_EQ(read_by_ranks(make, 30, {1, 1, 1, 1, 1, 7}), alone);
  EXPECT_EQ(read_by_ranks(make, 30, {6, 6}), alone);
}

TEST_F(SamplerTest, AnswersTheSameFromManyThreads) {
  const auto s = sampler({3000}, 16, 8);
  std::vector<std::vector<Location>> seen(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : seen) {
      threads.emplace_back([&] {
        for (std::int64_t step = 0; step < 50; ++step) mine.push_back(s.locate(step, static_cast<int>(step % 8)));
      });
    }
  }
  for (const auto& mine : seen) EXPECT_EQ(mine, seen.front());
}

TEST_F(SamplerTest, DependsOnTheSeed) {
  const auto a = sampler({3000}, 16, 8, 1), b = sampler({3000}, 16, 8, 2);
  int same = 0;
  for (int i = 0; i < 8; ++i) same += a.locate(0, i).sequence == b.locate(0, i).sequence;
  EXPECT_LT(same, 3);
}

TEST_F(SamplerTest, ShufflesEveryEpochAnew) {
  const auto s = sampler({3000}, 16, 1);
  const auto n = s.sequences_per_epoch();
  for (std::int64_t epoch = 1; epoch < 4; ++epoch) {
    int same = 0;
    for (std::int64_t i = 0; i < n; ++i) same += s.locate(i, 0).sequence == s.locate(epoch * n + i, 0).sequence;
    EXPECT_LT(same, 10) << "of " << n << " in epoch " << epoch;  // about one in a random order
  }
}

TEST_F(SamplerTest, KeepsItsOrderBetweenVersions) {
  // A run of an earlier version must resume with the same data: these places are kept.
  const auto s = sampler({1000, 300}, 10, 4, 1234);
  const std::vector<Location> expected{{0, 27, 0, 270}, {0, 119, 1, 218}, {0, 68, 0, 680},  {0, 37, 0, 370},
                                       {3, 43, 0, 438}, {3, 25, 0, 258},  {3, 119, 1, 217}, {3, 90, 0, 908}};
  std::vector<Location> found;
  for (const std::int64_t step : {0, 100}) {
    for (int i = 0; i < 4; ++i) found.push_back(s.locate(step, i));
  }
  EXPECT_EQ(found, expected);
}

TEST_F(SamplerTest, EvaluationIsTheSameForEverySeedAndComesFromAllFiles) {
  const auto a = sampler({1000, 1000, 1000}, 10, 4, 1), b = sampler({1000, 1000, 1000}, 10, 8, 2);
  std::set<std::int64_t> sequences;
  std::set<int> sections;
  for (std::int64_t i = 0; i < a.sequences_per_epoch(); ++i) {
    const auto where = a.locate_evaluation(i);
    EXPECT_EQ(where, b.locate_evaluation(i));
    EXPECT_EQ(where.first % 10, 0);
    sequences.insert(where.sequence);
    if (i < 24) sections.insert(where.section);
  }
  EXPECT_EQ(static_cast<std::int64_t>(sequences.size()), a.sequences_per_epoch());
  EXPECT_EQ(sections.size(), 3u);
}

TEST_F(SamplerTest, PassesOverShortFilesAndSaysSo) {
  const auto s = sampler({5, 100, 10, 11}, 10, 2);
  EXPECT_EQ(s.sequences_per_epoch(), 9 + 1);
  std::map<int, int> uses;
  for (std::int64_t step = 0; step < 5; ++step) {
    for (int i = 0; i < 2; ++i) ++uses[s.locate(step, i).section];
  }
  EXPECT_EQ(uses, (std::map<int, int>{{1, 9}, {3, 1}}));
  expect_contains(s.unused(), "2 of 4 files have fewer than 11 tokens");
  expect_contains(s.unused(), (folder_ / "file0").string() + " (5 tokens)");
  EXPECT_EQ(sampler({100, 11}, 10, 2).unused(), "");
}

TEST_F(SamplerTest, SaysHowManyTokensASequenceNeeds) {
  const auto message = refusal([&] { sampler({5, 10}, 10, 2); });
  expect_contains(message, (folder_ / "file1").string());
  expect_contains(message, "tokens 0 to 10 are 10");
  expect_contains(message, "at least 11");
  EXPECT_NO_THROW(sampler({11}, 10, 2));
  expect_contains(refusal([] { Sampler{Corpus{}, {0, 10, 2, 100}}; }), "no data");
}

TEST_F(SamplerTest, RefusesImpossibleOptions) {
  const auto data = corpus({100});
  expect_contains(refusal([&] { Sampler{data, {0, 0, 2, 100}}; }), "sequence length 0");
  expect_contains(refusal([&] { Sampler{data, {0, 10, 0, 100}}; }), "global batch 0");
  expect_contains(refusal([&] { Sampler{data, {0, 10, 2, 0}}; }), "vocabulary 0");
}

TEST_F(SamplerTest, ChecksEveryTokenItReads) {
  const Sampler s{corpus({2000}), {0, 10, 2, 1500}};
  int refused = 0;
  std::vector<std::int32_t> tokens(11);
  for (std::int64_t i = 0; i < s.sequences_per_epoch(); ++i) {
    const auto where = s.locate_evaluation(i);
    try {
      s.read(where, tokens);
      EXPECT_LE(where.first + 11, 1500);
    } catch (const Error& error) {
      ++refused;
      EXPECT_GT(where.first + 11, 1500);
      expect_contains(error.what(), "byte " + std::to_string(2 * std::max<std::int64_t>(where.first, 1500)));
    }
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace flotilla::data
