// Which token comes next: a pure function of logits, options and place.
#include "flotilla/inference/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace flotilla::inference {
namespace {

const std::vector<float> logits{0.5f, 2.0f, -1.0f, 2.0f, 1.0f, -30.0f};

std::map<std::int32_t, double> shares(const SamplingOptions& options, int draws) {
  std::map<std::int32_t, double> counts;
  for (int i = 0; i < draws; ++i) counts[choose_token(logits, options, i)] += 1.0 / draws;
  return counts;
}

TEST(ChooseToken, TakesTheFirstOfTheLikeliestWithoutTemperature) {
  EXPECT_EQ(choose_token(logits, {}, 0), 1);
  EXPECT_EQ(choose_token(logits, {.top_k = 3, .top_p = 0.5, .seed = 9}, 17), 1);
}

TEST(ChooseToken, IsAFunctionOfSeedAndPlace) {
  const SamplingOptions options{.temperature = 1, .seed = 5};
  std::vector<std::int32_t> first, again, other;
  for (int i = 0; i < 64; ++i) {
    first.push_back(choose_token(logits, options, i));
    again.push_back(choose_token(logits, options, i));
    other.push_back(choose_token(logits, {.temperature = 1, .seed = 6}, i));
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

/// Within four standard deviations of the softmax.
TEST(ChooseToken, DrawsInProportion) {
  constexpr int draws = 20000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    const auto found = shares({.temperature = temperature}, draws);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) / temperature);
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const double expected = std::exp(static_cast<double>(logits[token]) / temperature) / sum;
      const auto at = found.find(static_cast<std::int32_t>(token));
      EXPECT_NEAR(at == found.end() ? 0 : at->second, expected, 4 * std::sqrt(expected * (1 - expected) / draws) + 1e-9) << temperature;
    }
  }
}

std::set<std::int32_t> tokens_of(const SamplingOptions& options) {
  std::set<std::int32_t> tokens;
  for (const auto& [token, share] : shares(options, 2000)) tokens.insert(token);
  return tokens;
}

TEST(ChooseToken, LeavesOutWhatIsUnlikely) {
  EXPECT_EQ(tokens_of({.temperature = 1, .top_k = 3}), (std::set<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(tokens_of({.temperature = 1, .top_k = 1}), (std::set<std::int32_t>{1}));
  // Shares: 0.36 and 0.36, 0.13, 0.08, 0.02.
  EXPECT_EQ(tokens_of({.temperature = 1, .top_p = 0.5}), (std::set<std::int32_t>{1, 3}));
  EXPECT_EQ(tokens_of({.temperature = 1, .top_p = 0.8}), (std::set<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(tokens_of({.temperature = 1, .top_p = 1e-9}), (std::set<std::int32_t>{1}));
}

}  // namespace
}  // namespace flotilla::inference
