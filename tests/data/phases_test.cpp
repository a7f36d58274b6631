// Runs whose length, batch and mixture change on the way.
#include <algorithm>
#include <numeric>
#include <set>

#include "data/token_files.hpp"
#include "flotilla/data/sampler.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

constexpr int cut = 10;
constexpr SamplerOptions options{1, cut, 4, 60000};

class Phases : public ::testing::Test {
 protected:
  /// A file of so many sequences of `cut` tokens.
  Corpus corpus(int sequences) {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(sequences * cut + 1));
    std::iota(tokens.begin(), tokens.end(), std::int64_t{0});
    CorpusOptions files{{}, {}, Format::raw_uint16, 0};
    files.training.push_back(write(folder_ / ("file" + std::to_string(files_++)), elements<std::uint16_t>(tokens)));
    return open_corpora(files).training;
  }

  TemporaryFolder folder_;
  int files_ = 0;
};

/// All that is drawn, in order.
std::vector<Location> drawn(const Sampler& sampler, std::int64_t steps) {
  std::vector<Location> all;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto phase = std::prev(std::ranges::upper_bound(sampler.phases(), step, {}, &SamplingPhase::first_step));
    for (int i = 0; i < phase->global_batch; ++i) all.push_back(sampler.locate(step, i));
  }
  return all;
}

std::vector<std::int64_t> numbers_of(const std::vector<Location>& locations, int source) {
  std::vector<std::int64_t> numbers;
  for (const auto& location : locations)
    if (location.source == source) numbers.push_back(location.sequence);
  return numbers;
}

TEST_F(Phases, ThatDifferInNothingAreOneRun) {
  const std::vector<Source> sources{{.name = "a", .corpus = corpus(20), .weight = 2}, {.name = "b", .corpus = corpus(9)}};
  const Sampler one{sources, options};
  const Sampler three{sources, options, {{0, cut, 4, {}}, {5, cut, 4, {2, 1}}, {11, cut, 4, {}}}};
  EXPECT_EQ(numbers_of(drawn(one, 20), 0), numbers_of(drawn(three, 20), 0)) << "a source goes on where it was";
  EXPECT_EQ(one.drawn(5), three.drawn(5));
}

/// The bound is of sequences, so a window of steps is the nearer to the weights the larger the batch: 0.1 % of 10,000 steps is held from
/// any step, through a change of weights elsewhere, a source that ends, and data that grow.
TEST_F(Phases, TenThousandStepsHaveTheWeights) {
  constexpr std::int64_t window = 10000;
  const std::vector<double> weights{0.55, 0.3, 0.1, 0.0499, 0.0001};
  std::vector<Source> sources;
  for (std::size_t i = 0; i < weights.size(); ++i)
    sources.push_back({.name = std::string(1, static_cast<char>('a' + i)), .corpus = corpus(40), .weight = weights[i]});
  sources[0].growth = {{777, 1}};
  sources[0].files_at_start = 1;
  const Sampler sampler{sources, options, {{0, cut, 4, {1, 1, 1, 1, 1}}, {501, cut, 4, {}}, {20000, cut, 9, {}}}};
  for (const std::int64_t first : {501, 502, 999, 5000, 10001}) {
    std::vector<double> drawn(weights.size());
    for (std::int64_t step = first; step < first + window; ++step)
      for (int i = 0; i < (step < 20000 ? 4 : 9); ++i) drawn[static_cast<std::size_t>(sampler.locate(step, i).source)] += 1;
    const double all = std::accumulate(drawn.begin(), drawn.end(), 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_NEAR(drawn[i] / all, weights[i], 1e-3 * 0.1) << "source " << i << " from " << first;
  }
}

TEST_F(Phases, OfAnotherBatchGoOnInTheSameOrder) {
  const std::vector<Source> sources{{.corpus = corpus(30)}};
  const Sampler small{sources, {1, cut, 1, 60000}};
  const Sampler ramp{sources, options, {{0, cut, 2, {}}, {3, cut, 5, {}}, {6, cut, 9, {}}}};
  EXPECT_EQ(drawn(ramp, 7), drawn(small, 30)) << "6 + 15 + 9 sequences: an epoch";
}

TEST_F(Phases, DrawFromTheSourcesThatTheyName) {
  const std::vector<Source> sources{
      {.name = "a", .corpus = corpus(20)}, {.name = "b", .corpus = corpus(20)}, {.name = "c", .corpus = corpus(20)}};
  const Sampler sampler{sources, options, {{0, cut, 4, {1, 1, 0}}, {100, cut, 4, {0, 3, 1}}}};
  EXPECT_EQ(sampler.drawn(100), (std::vector<std::int64_t>{200, 200, 0}));
  EXPECT_EQ(sampler.drawn(200), (std::vector<std::int64_t>{200, 500, 100}));
  const Sampler alone{{sources[1]}, {1, cut, 1, 60000}};
  EXPECT_EQ(numbers_of(drawn(sampler, 200), 1), numbers_of(drawn(alone, 500), 0)) << "no sequence twice or left out at the boundary";
}

TEST_F(Phases, OfAnotherLengthHaveAnOrderOfTheirOwnAndComeBackToTheFirst) {
  const std::vector<Source> sources{{.corpus = corpus(30)}};
  const Sampler sampler{sources, options, {{0, cut, 4, {}}, {3, 3 * cut, 2, {}}, {5, cut, 4, {}}}};
  const Sampler unbroken{sources, options};
  const auto all = drawn(sampler, 9), plain = drawn(unbroken, 7);
  EXPECT_EQ(std::vector(all.begin(), all.begin() + 12), std::vector(plain.begin(), plain.begin() + 12));
  EXPECT_EQ(std::vector(all.begin() + 16, all.end()), std::vector(plain.begin() + 12, plain.end()));
  EXPECT_EQ(sampler.sequences_per_epoch(0), 30);
  EXPECT_EQ(sampler.sequences_per_epoch(0, 3 * cut), 10);
  std::vector<std::int32_t> tokens(3 * cut + 1);
  sampler.read(sampler.locate(3, 0), tokens);
  EXPECT_EQ(tokens.back() - tokens.front(), 3 * cut);
}

TEST_F(Phases, TogetherDrawNoMoreThanTheEpochs) {
  const Source twice{.name = "a", .corpus = corpus(30), .epochs = 2};
  const Sampler sampler{{twice}, options, {{0, cut, 4, {}}, {5, 3 * cut, 2, {}}}};
  EXPECT_EQ(sampler.steps(), 5 + 6) << "20 of 60 sequences, then two thirds of 20";
  const Sampler too_early{{twice}, options, {{0, cut, 4, {}}, {16, 3 * cut, 2, {}}}};
  EXPECT_EQ(too_early.steps(), 15);
  const Sampler back{{twice}, options, {{0, cut, 4, {}}, {5, 3 * cut, 2, {}}, {10, cut, 4, {}}}};
  EXPECT_EQ(back.steps(), 10 + 2) << "half of the epochs at the other length: 10 of 60 are left";
}

TEST_F(Phases, GrowWithTheirSources) {
  auto files = corpus(12).sections();
  files.push_back(corpus(8).sections().front());
  Source source{.name = "a", .corpus = Corpus{files}, .growth = {{4, 2}}, .files_at_start = 1};
  const std::vector<SamplingPhase> phases{{0, cut, 2, {}}, {3, cut, 4, {}}, {7, 2 * cut, 2, {}}};
  const Sampler sampler{{source}, options, phases};
  const auto all = drawn(sampler, 7);
  const auto first = numbers_of(all, 0);  // 6 + 4 of the first file, then 2 that are left and 8 new ones
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.begin() + 20).size(), 20u);
  EXPECT_LT(*std::max_element(first.begin(), first.begin() + 10), 12);
  EXPECT_EQ(sampler.sequences_per_epoch(0, 2 * cut), 10);
}

TEST_F(Phases, NeedASequenceOfEveryLengthWhereTheyDraw) {
  const std::vector<Source> sources{{.name = "long", .corpus = corpus(30)}, {.name = "short", .corpus = corpus(2)}};
  EXPECT_THROW((Sampler{sources, options, {{0, cut, 4, {}}, {5, 3 * cut, 4, {}}}}), Error);
  EXPECT_NO_THROW((Sampler{sources, options, {{0, cut, 4, {}}, {5, 3 * cut, 4, {1, 0}}}}));
}

}  // namespace
}  // namespace flotilla::data
