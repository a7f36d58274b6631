#include "flotilla/base/half.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace flotilla {
namespace {

constexpr std::uint16_t infinity = 0x7c00, sign = 0x8000;

/// By the definition of binary16.
double exact(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return half & sign ? -magnitude : magnitude;
}

TEST(Half, EveryNumberIsWidenedExactlyAndComesBack) {
  for (unsigned i = 0; i < infinity; ++i)
    for (const auto half : {static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(i | sign)}) {
      ASSERT_EQ(half_to_float(half), exact(half)) << half;
      ASSERT_EQ(half_from_float(half_to_float(half)), half);
    }
  EXPECT_EQ(half_to_float(infinity), std::numeric_limits<float>::infinity());
  EXPECT_EQ(half_from_float(half_to_float(infinity | sign)), infinity | sign);
  EXPECT_TRUE(std::isnan(half_to_float(infinity + 1)));
  EXPECT_TRUE(std::isnan(half_to_float(half_from_float(std::nanf("")))));
}

/// Between neighbours: the nearer one, and at the middle the even one.
TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (std::uint16_t low = 0; low < infinity - 1; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const auto middle = static_cast<float>((exact(low) + exact(high)) / 2);
    ASSERT_EQ(half_from_float(middle), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(half_from_float(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(half_from_float(std::nextafter(middle, 1e6f)), high) << low;
    ASSERT_EQ(half_from_float(-middle), (low % 2 == 0 ? low : high) | sign) << low;
  }
  EXPECT_EQ(half_from_float(65519.996f), infinity - 1);
  EXPECT_EQ(half_from_float(65520.0f), infinity);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::denorm_min()), 0);
}

}  // namespace
}  // namespace flotilla
