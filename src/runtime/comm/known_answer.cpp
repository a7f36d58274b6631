#include "known_answer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "flotilla/base/philox.hpp"

namespace flotilla::comm {
namespace {

constexpr std::int64_t most_contributions = 1 << 23;  // computed in one check; about 30 ms

}  // namespace

float known_contribution(int member, std::int64_t element) noexcept {
  const std::uint64_t bits = Philox::mix(static_cast<std::uint64_t>(element) * 0x10001u + static_cast<std::uint64_t>(member));
  const float mantissa = 1.0f + static_cast<float>(bits & 0x7fffffu) * 0x1p-23f;
  const int exponent = static_cast<int>((bits >> 23) % 17) - 8;
  return std::ldexp((bits >> 63) != 0 ? -mantissa : mantissa, exponent);
}

float known_sum(int members, std::int64_t element) noexcept {
  float sum = known_contribution(0, element);
  for (int member = 1; member < members; ++member) sum += known_contribution(member, element);
  return sum;
}

void fill_known(int member, std::span<float> values) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = known_contribution(member, static_cast<std::int64_t>(i));
}

std::int64_t first_wrong(int members, std::span<const float> values) noexcept {
  const auto size = static_cast<std::int64_t>(values.size());
  const std::int64_t stride = std::max<std::int64_t>(1, size * members / most_contributions);
  for (std::int64_t i = 0; i < size; i += stride)
    if (std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i)]) != std::bit_cast<std::uint32_t>(known_sum(members, i))) return i;
  return -1;
}

}  // namespace flotilla::comm
