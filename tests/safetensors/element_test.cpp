#include "element.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace flotilla::safetensors {
namespace {

/// A half-precision number by its definition in IEEE 754: sign, 5 bits of exponent, 10 of fraction.
double fp16_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(Fp16, EveryNumberIsReadByDefinitionAndWrittenBack) {
  for (int i = 0; i < 1 << 16; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = from_fp16(bits);
    const double expected = fp16_by_definition(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(from_fp16(to_fp16(value)))) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(static_cast<float>(expected))) << bits;
      ASSERT_EQ(to_fp16(value), bits);
    }
  }
}

TEST(Fp16, RoundsToTheNearestEven) {
  for (int i = 0; i < 0x7bff; ++i) {
    const auto below = static_cast<std::uint16_t>(i), above = static_cast<std::uint16_t>(i + 1);
    const float half_way = static_cast<float>((fp16_by_definition(below) + fp16_by_definition(above)) / 2);
    ASSERT_EQ(to_fp16(half_way), i % 2 == 0 ? below : above) << i;
    ASSERT_EQ(to_fp16(std::nextafter(half_way, 0.0f)), below) << i;
    ASSERT_EQ(to_fp16(-std::nextafter(half_way, 1e9f)), above | 0x8000) << i;
  }
  EXPECT_EQ(to_fp16(65519.9f), 0x7bff);
  EXPECT_EQ(to_fp16(65520.0f), 0x7c00);
  EXPECT_EQ(to_fp16(-1e30f), 0xfc00);
}

TEST(Bf16, EveryNumberIsTheUpperHalfAndWrittenBack) {
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = from_bf16(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), i << 16);
    if (!std::isnan(value)) {
      ASSERT_EQ(to_bf16(value), bits);
    }
  }
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Bf16, RoundsToTheNearestEven) {
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Elements, CountsThatNoFileHasAreNone) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, 5}), 0);
  EXPECT_EQ(element_count({1 << 20, 1 << 20}), std::int64_t{1} << 40);
  EXPECT_FALSE(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40}));
  EXPECT_FALSE(element_count({std::int64_t{1} << 62}));
}

}  // namespace
}  // namespace flotilla::safetensors
