// Sources that are mixed, and that grow between runs.
#include <map>
#include <numeric>
#include <set>

#include "data/token_files.hpp"
#include "flotilla/data/sampler.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

constexpr int length = 10;

class Sources : public ::testing::Test {
 protected:
  /// A corpus of files with so many sequences each (below the number from which one is given up).
  Corpus corpus(const std::vector<int>& sequences) {
    CorpusOptions options{{}, {}, Format::raw_uint16, 0};
    for (const int count : sequences) {
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(count * length + 1));
      std::iota(tokens.begin(), tokens.end(), std::int64_t{0});
      options.training.push_back(write(folder_ / ("file" + std::to_string(files_++)), elements<std::uint16_t>(tokens)));
    }
    return open_corpora(options).training;
  }
  Sampler sampler(std::vector<Source> sources, int batch = 4) { return {std::move(sources), {1, length, batch, 60000}}; }
  static std::vector<std::int64_t> drawn_of(const Sampler& sampler, int source, std::int64_t from, std::int64_t to) {
    std::vector<std::int64_t> sequences;
    for (auto step = from; step < to; ++step)
      for (int i = 0; i < sampler.options().global_batch; ++i)
        if (const auto where = sampler.locate(step, i); where.source == source) sequences.push_back(where.sequence);
    return sequences;
  }

  TemporaryFolder folder_;
  int files_ = 0;
};

TEST_F(Sources, OfOneNameOrNoneDrawEverySequenceOnceAnEpoch) {
  const auto data = corpus({12, 8});
  for (const char* name : {"", "web"}) {
    const auto s = sampler({{.name = name, .corpus = data}}, 5);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const auto drawn = drawn_of(s, 0, 4 * epoch, 4 * epoch + 4);
      EXPECT_EQ(std::set<std::int64_t>(drawn.begin(), drawn.end()).size(), 20u);
    }
  }
  EXPECT_EQ(sampler({{.corpus = data}}).locate(3, 1), Sampler(data, {1, length, 4, 60000}).locate(3, 1)) << "the special case";
}

TEST_F(Sources, AreMixedByWeightAndDrawnInTheirOwnOrder) {
  const auto web = corpus({20}), code = corpus({7, 6});
  const auto s = sampler({{.name = "web", .corpus = web, .weight = 3}, {.name = "code", .corpus = code, .weight = 1}});
  EXPECT_EQ(s.drawn(100), (std::vector<std::int64_t>{300, 100}));
  const auto other = sampler({{.name = "other", .corpus = web}, {.name = "code", .corpus = code}});
  const auto mine = drawn_of(s, 1, 0, 52), theirs = drawn_of(other, 1, 0, 26);
  EXPECT_EQ(mine, theirs) << "a source's order is its own, whatever it is mixed with";
  EXPECT_EQ(s.sequences_per_epoch(1), 13);
}

TEST_F(Sources, EndWithTheirEpochs) {
  const auto s = sampler({{.name = "a", .corpus = corpus({6}), .epochs = 2}, {.name = "b", .corpus = corpus({10}), .epochs = 1}}, 5);
  EXPECT_EQ(s.steps(), 4) << "22 sequences";
  const auto a = drawn_of(s, 0, 0, 4), b = drawn_of(s, 1, 0, 4);
  std::map<std::int64_t, int> times;
  for (const auto sequence : a) ++times[sequence];
  for (const auto& [sequence, count] : times) EXPECT_LE(count, 2);
  EXPECT_EQ(std::set<std::int64_t>(b.begin(), b.end()).size(), b.size());
}

TEST_F(Sources, ThatGrowKeepWhatWasSeenAndDrawTheRestAndTheNewFirst) {
  const auto data = corpus({12, 8, 10});
  Source source{.name = "web", .corpus = data, .growth = {{3, 3}}, .files_at_start = 2};
  const auto grown = sampler({source});
  source.growth.clear();
  source.corpus = Corpus{{data.sections().begin(), data.sections().begin() + 2}};
  const auto before = sampler({source});
  for (std::int64_t step = 0; step < 3; ++step)
    for (int i = 0; i < 4; ++i) EXPECT_EQ(grown.locate(step, i), before.locate(step, i));
  const auto first = drawn_of(grown, 0, 0, 3);
  std::set<std::int64_t> seen(first.begin(), first.end());
  EXPECT_EQ(seen.size(), 12u);
  std::vector<std::int64_t> rest = drawn_of(grown, 0, 3, 8);
  rest.resize(8 + 10);
  bool mixed = false;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    EXPECT_TRUE(seen.insert(rest[i]).second) << "nothing comes again before all has come";
    mixed = mixed || (i < 8 && rest[i] >= 20);
  }
  EXPECT_TRUE(mixed) << "new ones are not last";
  EXPECT_EQ(seen.size(), 30u);
  std::vector<std::int64_t> later;
  for (std::int64_t draw = 30; draw < 60; ++draw) later.push_back(grown.locate(draw / 4, static_cast<int>(draw % 4)).sequence);
  EXPECT_EQ(std::set<std::int64_t>(later.begin(), later.end()).size(), 30u) << "an epoch of everything";
  EXPECT_EQ(grown.locate(30 / 4, 30 % 4).epoch, 1);
}

TEST_F(Sources, MayGrowAgainAndAtAnyPlaceOfAnEpoch) {
  const auto data = corpus({8, 4, 6, 5});
  for (std::int64_t first : {1, 2, 3})
    for (std::int64_t second : {first, first + 1, first + 2, first + 7}) {
      const auto s = sampler({{.name = "web", .corpus = data, .growth = {{first, 2}, {second, 4}}, .files_at_start = 1}});
      std::map<std::int64_t, int> times;
      // Whatever is drawn has been drawn no more than once more often than anything that was there as long.
      for (std::int64_t draw = 0; draw < 200; ++draw) {
        ++times[s.locate(draw / 4, static_cast<int>(draw % 4)).sequence];
        const auto known = draw < 4 * first ? 8 : draw < 4 * second ? 12 : 23;
        int least = 1000, most = 0;
        for (int sequence = 0; sequence < 8; ++sequence) least = std::min(least, times[sequence]), most = std::max(most, times[sequence]);
        ASSERT_LE(most - least, 1) << first << " " << second << " draw " << draw;
        for (const auto& [sequence, count] : times) ASSERT_TRUE(count == 0 || sequence < known);
      }
      EXPECT_EQ(times.size(), 23u);
    }
}

TEST_F(Sources, ThatGrowMayGiveMoreOfTheirEpochs) {
  const auto data = corpus({8, 6}), other = corpus({20});
  const auto s =
      sampler({{.name = "web", .corpus = data, .epochs = 1, .growth = {{10, 2}}, .files_at_start = 1}, {.name = "b", .corpus = other}});
  EXPECT_EQ(s.drawn(10), (std::vector<std::int64_t>{8, 32}));
  EXPECT_EQ(s.drawn(13), (std::vector<std::int64_t>{14, 38}));
  EXPECT_EQ(s.drawn(100)[0], 14) << "each sequence once";
  const auto drawn = drawn_of(s, 0, 0, 100);
  EXPECT_EQ(std::set<std::int64_t>(drawn.begin(), drawn.end()).size(), 14u);
}

TEST_F(Sources, WithoutASequenceAreNamed) {
  const auto none = corpus({0});
  EXPECT_NE(refusal([&] {
              sampler({{.name = "web", .corpus = corpus({3})}, {.name = "b", .corpus = none}});
            }).find("too few for one sequence"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla::data
