#include "flotilla/base/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace flotilla {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Random123's known-answer tests (kat_vectors, philox4x32 10 rounds).
TEST(Philox, KnownAnswers) {
  Philox zeros;
  EXPECT_EQ(zeros(0, 0), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  Philox ones;
  ones.key0 = ones.key1 = 0xffffffffu;
  EXPECT_EQ(ones(~0ull, ~0ull), (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(Philox, StreamsOfOneSeedDiffer) {
  std::set<std::uint32_t> first;
  for (std::uint64_t purpose = 0; purpose < 1000; ++purpose) first.insert(Philox{7, purpose}(0)[0]);
  EXPECT_EQ(first.size(), 1000u);
}

TEST(Uniform, LiesStrictlyBetweenZeroAndOneWithTheRightMean) {
  EXPECT_GT(uniform(0), 0.0f);
  EXPECT_LT(uniform(~0u), 1.0f);
  const Philox random{1, 2};
  double sum = 0;
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) sum += uniform(random(static_cast<std::uint64_t>(i))[3]);
  EXPECT_NEAR(sum / draws, 0.5, 5 / std::sqrt(12.0 * draws));
}

}  // namespace
}  // namespace flotilla
