#include "ordered_sum.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "flotilla/base/half.hpp"

namespace flotilla::comm {
namespace {

template <class T>
std::vector<const std::byte*> pointers(const std::vector<std::vector<T>>& parts) {
  std::vector<const std::byte*> result;
  for (const auto& part : parts) result.push_back(reinterpret_cast<const std::byte*>(part.data()));
  return result;
}

template <class T>
std::vector<T> sum(ElementType type, const std::vector<std::vector<T>>& parts) {
  std::vector<T> out(parts.front().size());
  ordered_sum(type, pointers(parts), reinterpret_cast<std::byte*>(out.data()), static_cast<std::int64_t>(out.size()));
  return out;
}

template <class T>
std::vector<std::vector<T>> random_parts(std::size_t members, std::size_t elements) {
  std::mt19937 engine{7};
  std::uniform_real_distribution<T> mantissa{-1, 1};
  std::vector<std::vector<T>> parts(members, std::vector<T>(elements));
  for (auto& part : parts)
    for (T& value : part) value = std::ldexp(mantissa(engine), static_cast<int>(engine() % 20));
  return parts;
}

template <class T>
void expect_member_order(ElementType type) {
  for (const std::size_t elements : {0u, 1u, 1023u, 1024u, 1025u, 5000u}) {
    const auto parts = random_parts<T>(5, elements);
    const auto got = sum(type, parts);
    for (std::size_t i = 0; i < elements; ++i) {
      const T expected = (((parts[0][i] + parts[1][i]) + parts[2][i]) + parts[3][i]) + parts[4][i];
      ASSERT_EQ(got[i], expected) << i << " of " << elements;
    }
  }
}

TEST(OrderedSum, AddsFp32InMemberOrder) { expect_member_order<float>(ElementType::fp32); }
TEST(OrderedSum, AddsFp64InMemberOrder) { expect_member_order<double>(ElementType::fp64); }

TEST(OrderedSum, OrderMattersToTheBitsSoTheTestsAboveMeanSomething) {
  auto parts = random_parts<float>(5, 1000);
  const auto forward = sum(ElementType::fp32, parts);
  std::swap(parts[1], parts[3]);
  EXPECT_NE(forward, sum(ElementType::fp32, parts));
}

TEST(OrderedSum, MayWriteOverAnyOfItsParts) {
  for (std::size_t own = 0; own < 3; ++own) {
    auto parts = random_parts<float>(3, 2500);
    const auto expected = sum(ElementType::fp32, parts);
    ordered_sum(ElementType::fp32, pointers(parts), reinterpret_cast<std::byte*>(parts[own].data()), 2500);
    EXPECT_EQ(parts[own], expected);
  }
}

std::uint16_t bf16(float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); }
float widen(std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }

/// The bf16 number nearest to `value`, ties to even, found among the neighbours without bit tricks.
std::uint16_t nearest(float value) {
  const std::uint16_t toward_zero = bf16(value);
  const auto away = static_cast<std::uint16_t>(toward_zero + 1);
  const double low = std::fabs(double{value} - double{widen(toward_zero)});
  const double high = std::fabs(double{widen(away)} - double{value});
  if (low != high) return low < high ? toward_zero : away;
  return toward_zero % 2 == 0 ? toward_zero : away;
}

TEST(OrderedSum, Bf16IsAddedInFp32AndRoundedOnceToNearestEven) {
  std::mt19937 engine{11};
  std::vector<std::vector<std::uint16_t>> parts(4, std::vector<std::uint16_t>(3000));
  std::uniform_real_distribution<float> values{-100, 100};
  for (auto& part : parts)
    for (auto& value : part) value = bf16(values(engine));
  const auto got = sum(ElementType::bf16, parts);
  int rounded_more_than_once = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float exact = ((widen(parts[0][i]) + widen(parts[1][i])) + widen(parts[2][i])) + widen(parts[3][i]);
    ASSERT_EQ(got[i], nearest(exact)) << i;
    std::uint16_t twice = parts[0][i];
    for (std::size_t k = 1; k < 4; ++k) twice = nearest(widen(twice) + widen(parts[k][i]));
    rounded_more_than_once += twice != got[i];
  }
  EXPECT_GT(rounded_more_than_once, 100);
}

TEST(OrderedSum, Bf16KeepsNanAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::uint16_t large = 0x7f7f;  // largest finite
  const auto got = sum<std::uint16_t>(ElementType::bf16, {{0x7f81, bf16(infinity), bf16(infinity), large}, {0, bf16(-infinity), 0, large}});
  EXPECT_TRUE(std::isnan(widen(got[0])));
  EXPECT_TRUE(std::isnan(widen(got[1])));
  EXPECT_EQ(widen(got[2]), infinity);
  EXPECT_EQ(widen(got[3]), infinity);
}

TEST(OrderedSum, Fp16IsAddedInFp32AndRoundedOnce) {
  std::mt19937 engine{12};
  std::uniform_real_distribution<float> values{-100, 100};
  std::vector<std::vector<std::uint16_t>> parts(4, std::vector<std::uint16_t>(3000));
  for (auto& part : parts)
    for (auto& value : part) value = half_from_float(values(engine));
  const auto got = sum(ElementType::fp16, parts);
  int rounded_more_than_once = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto add = [&](float a, std::size_t k) { return a + half_to_float(parts[k][i]); };
    const float exact = add(add(add(half_to_float(parts[0][i]), 1), 2), 3);
    ASSERT_EQ(got[i], half_from_float(exact)) << i;
    std::uint16_t twice = parts[0][i];
    for (std::size_t k = 1; k < 4; ++k) twice = half_from_float(add(half_to_float(twice), k));
    rounded_more_than_once += twice != got[i];
  }
  EXPECT_GT(rounded_more_than_once, 100);
}

TEST(OrderedSum, Fp16OverflowsToInfinity) {
  const std::uint16_t large = 0x7bff;  // largest finite
  EXPECT_EQ(sum<std::uint16_t>(ElementType::fp16, {{large}, {large}}), std::vector<std::uint16_t>{0x7c00});
}

}  // namespace
}  // namespace flotilla::comm
