#include "known_answer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "flotilla/base/philox.hpp"

namespace flotilla::comm {
namespace {

constexpr std::int64_t most_contributions = 1 << 23;  // computed in one check; about 30 ms

bool sums_in_any_order(const program::Group& group) { return group.algorithm == program::Group::Algorithm::library_all_reduce; }

}  // namespace

float known_contribution(int member, std::int64_t element, bool any_order) noexcept {
  const std::uint64_t bits = Philox::mix(static_cast<std::uint64_t>(element) * 0x10001u + static_cast<std::uint64_t>(member));
  const float mantissa = 1.0f + static_cast<float>(bits & 0x7fffffu) * 0x1p-23f;
  const int exponent = static_cast<int>((bits >> 23) % 17) - 8;
  const float value = std::ldexp((bits >> 63) != 0 ? -mantissa : mantissa, exponent);
  return any_order ? std::trunc(value) + 0.0f : value;
}

KnownSum::KnownSum(const program::Group& group) : any_order_{sums_in_any_order(group)}, values_(group.members.size()) {
  std::vector<std::size_t> below(
      group.members.size());  // by member, where the sum of its subgroup below is kept: at the first of the subgroup
  std::iota(below.begin(), below.end(), std::size_t{0});
  auto levels = group.subgroups;
  levels.emplace_back(group.members.size(), 0);
  for (const auto& level : levels) {
    std::vector<std::size_t> first(level.size(), level.size());  // by subgroup
    std::vector<std::size_t> here(level.size());
    for (std::size_t member = 0; member < level.size(); ++member) {
      auto& kept = first[static_cast<std::size_t>(level[member])];
      if (kept == level.size()) kept = below[member];
      if (below[member] == member && kept != member) additions_.emplace_back(kept, member);
      here[member] = kept;
    }
    below = std::move(here);
  }
}

float KnownSum::operator()(std::int64_t element) {
  for (std::size_t member = 0; member < values_.size(); ++member)
    values_[member] = known_contribution(static_cast<int>(member), element, any_order_);
  for (const auto& [into, from] : additions_) values_[into] += values_[from];
  return values_.front();
}

void fill_known(const program::Group& group, int member, std::span<float> values) noexcept {
  const bool any_order = sums_in_any_order(group);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = known_contribution(member, static_cast<std::int64_t>(i), any_order);
}

std::int64_t first_wrong(const program::Group& group, std::span<const float> values) {
  const auto members = static_cast<std::int64_t>(group.members.size());
  const auto size = static_cast<std::int64_t>(values.size());
  const std::int64_t stride = std::max<std::int64_t>(1, size * members / most_contributions);
  KnownSum known_sum{group};
  for (std::int64_t i = 0; i < size; i += stride)
    if (std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i)]) != std::bit_cast<std::uint32_t>(known_sum(i))) return i;
  return -1;
}

}  // namespace flotilla::comm
