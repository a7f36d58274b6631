// How sources share the sequences of a run.
#include "blend.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace flotilla::data {
namespace {

using Counts = std::vector<std::int64_t>;

Blend of(const std::vector<double>& weights) {
  std::vector<Blend::Part> parts;
  for (const double weight : weights) parts.push_back({weight});
  return Blend{parts};
}

int depth(std::size_t sources) { return static_cast<int>(std::ceil(std::log2(static_cast<double>(sources)))); }

const std::vector<std::vector<double>> mixtures{{1},
                                                {1, 1},
                                                {0.7, 0.3},
                                                {3, 2, 1},
                                                {0.98, 0.01, 0.01},
                                                {1e-4, 1, 1, 1e-3, 5},
                                                std::vector<double>(17, 1),
                                                {1, 2, 4, 8, 16, 32, 64, 128}};

TEST(Blend, AWindowOfManySequencesHasTheWeightsWithinTheBound) {
  for (const auto& weights : mixtures) {
    const auto blend = of(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<Counts> counts(1, Counts(weights.size()));
    for (std::int64_t position = 0; position < 20000; ++position) {
      counts.push_back(counts.back());
      ++counts.back()[static_cast<std::size_t>(blend(position).source)];
    }
    for (const std::size_t window : {1, 7, 100, 10000})
      for (std::size_t first = 0; first + window < counts.size(); first += 13)
        for (std::size_t i = 0; i < weights.size(); ++i) {
          const auto drawn = static_cast<double>(counts[first + window][i] - counts[first][i]);
          const double expected = weights[i] / sum * static_cast<double>(window);
          ASSERT_LE(std::abs(drawn - expected), depth(weights.size()) + 1e-6) << window << " from " << first << ", source " << i;
          ASSERT_TRUE(window < 10000 || std::abs(drawn - expected) <= 1e-3 * static_cast<double>(window));
        }
  }
}

TEST(Blend, EachSourceIsDrawnInItsOrderWithoutGaps) {
  for (const auto& weights : mixtures) {
    const auto blend = of(weights);
    Counts counts(weights.size());
    for (std::int64_t position = 0; position < 3000; ++position) {
      ASSERT_EQ(blend.counts(position), counts);
      const auto draw = blend(position);
      ASSERT_EQ(draw.number, counts[static_cast<std::size_t>(draw.source)]++);
    }
  }
}

TEST(Blend, OfFarPositionsIsAsOfNearOnes) {
  const auto blend = of({0.7, 0.2, 0.1});
  constexpr std::int64_t far = std::int64_t{1} << 55;
  const auto counts = blend.counts(far);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), far);
  EXPECT_NEAR(static_cast<double>(counts[0]) / static_cast<double>(far), 0.7, 1e-11);
  const auto draw = blend(far);
  EXPECT_EQ(draw.number, counts[static_cast<std::size_t>(draw.source)]);
}

TEST(Blend, WhoHasGivenAllIsLeftOut) {
  const Blend blend{{{1, 10}, {1, Blend::unlimited}, {2, 100}}};
  EXPECT_EQ(blend.size(), Blend::unlimited);
  EXPECT_EQ(blend.counts(40), (Counts{10, 10, 20}));
  EXPECT_EQ(blend.counts(40 + 120), (Counts{10, 50, 100})) << "one to two, as before";
  EXPECT_EQ(blend.counts(1000), (Counts{10, 890, 100}));
  Counts counts(3);
  for (std::int64_t position = 0; position < 300; ++position) {
    const auto draw = blend(position);
    ASSERT_EQ(draw.number, counts[static_cast<std::size_t>(draw.source)]++);
  }
  const Blend ends{{{1, 10}, {1, 5}}};
  EXPECT_EQ(ends.size(), 15);
  EXPECT_EQ(ends.counts(15), (Counts{10, 5}));
}

TEST(Blend, AChangeKeepsWhatWasDrawn) {
  const std::vector<Blend::Part> before{{1, 10}, {1, 30}}, after{{1, 25}, {3, Blend::unlimited}};
  Blend blend{before};
  EXPECT_EQ(blend.size(), 40);
  blend.change(30, after);
  EXPECT_EQ(blend.size(), Blend::unlimited);
  const Blend unchanged{before};
  for (std::int64_t position = 0; position < 30; ++position) EXPECT_EQ(blend(position), unchanged(position));
  EXPECT_EQ(blend.counts(30), (Counts{10, 20}));
  EXPECT_EQ(blend.counts(50), (Counts{15, 35})) << "it may give more again";
  EXPECT_EQ(blend.counts(90 + 100), (Counts{25, 165}));
  Blend over{before};
  over.change(40, after);
  EXPECT_EQ(over.counts(44), (Counts{11, 33}));
}

TEST(Blend, ManySmallMixturesEndExactly) {
  std::mt19937 random{3};
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Blend::Part> parts(1 + random() % 6);
    std::int64_t sum = 0;
    Counts all;
    for (auto& part : parts) {
      part = {0.001 + static_cast<double>(random() % 1000), static_cast<std::int64_t>(1 + random() % 50)};
      sum += part.most;
      all.push_back(part.most);
    }
    const Blend blend{parts};
    ASSERT_EQ(blend.size(), sum);
    ASSERT_EQ(blend.counts(sum), all);
  }
}

}  // namespace
}  // namespace flotilla::data
