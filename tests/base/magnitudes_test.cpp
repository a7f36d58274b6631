#include "flotilla/base/magnitudes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace flotilla {
namespace {

constexpr float boundless = std::numeric_limits<float>::infinity();

TEST(Magnitudes, WhatIsBeyondIsCountedWhereverItStands) {
  for (const float wrong : {boundless, -boundless, std::nanf(""), -std::nanf(""), 3.0f, -3.0f})
    for (const std::size_t size : {1u, 7u, 70'000u, 200'001u})
      for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
        std::vector<float> values(size, -2.0f);
        EXPECT_EQ(count_beyond(values, 2.0f), 0);
        values[at] = wrong;
        EXPECT_EQ(count_beyond(values, 2.0f), 1) << wrong << " at " << at << " of " << size;
        EXPECT_EQ(count_beyond(values), std::isfinite(wrong) ? 0 : 1);
      }
  EXPECT_EQ(count_beyond({}), 0);
  EXPECT_EQ(count_beyond(std::vector{0.0f, -0.0f, 1e-45f}, 0), 1);
}

TEST(Magnitudes, APrecisionHoldsWhatItRoundsToSomethingFinite) {
  EXPECT_EQ(count_beyond(std::vector{65504.0f, 65519.99f, -65519.99f}, largest_held(Precision::fp16)), 0);
  EXPECT_EQ(count_beyond(std::vector{65520.0f, -65520.0f, 1e6f}, largest_held(Precision::fp16)), 3);
  EXPECT_EQ(count_beyond(std::vector{3.389e38f, 3.39e38f}, largest_held(Precision::bf16)), 0);
  EXPECT_EQ(count_beyond(std::vector{3.4e38f}, largest_held(Precision::bf16)), 1);
  EXPECT_EQ(count_beyond(std::vector{3.4e38f}, largest_held(Precision::fp32)), 0);
}

TEST(Magnitudes, ACheckSaysHowManyAndTheFirst) {
  ValueCheck check;
  check.add(std::vector{1.0f, 2.0f});
  EXPECT_TRUE(check.passed());
  check.add(std::vector{1.0f, std::nanf("")});
  EXPECT_EQ(check.in_words(), "1 of 4 elements is not finite: nan");
  check.add(std::vector{boundless});
  EXPECT_EQ(check.in_words(), "2 of 5 elements are not finite, the first: nan");
  ValueCheck half{Precision::fp16};
  half.add(std::vector{7e4f});
  EXPECT_EQ(half.in_words(), "1 of 1 element is beyond what fp16 holds: 70000");
}

}  // namespace
}  // namespace flotilla
