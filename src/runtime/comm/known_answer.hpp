#pragma once
// Private: data whose sum every member can compute to the last bit.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::comm {

/// What member `member` contributes at `element`. Magnitudes spread over 2^±8, so that another order of the members, or another set of
/// them, gives other bits. `any_order`: whole numbers, whose sum is the same in all orders and another for other members.
float known_contribution(int member, std::int64_t element, bool any_order = false) noexcept;
/// The sum of all members' contributions in the group's order: member by member inside subgroups, then subgroup by subgroup; in any order
/// where the library sums.
class KnownSum {
 public:
  explicit KnownSum(const program::Group&);
  float operator()(std::int64_t element);

 private:
  bool any_order_;
  std::vector<float> values_;                                   // by member
  std::vector<std::pair<std::size_t, std::size_t>> additions_;  // in order: into, from
};

void fill_known(const program::Group&, int member, std::span<float> values) noexcept;
/// First element whose bits are not those of the known sum, or -1. Looks at all of them, or in large groups at every k-th.
std::int64_t first_wrong(const program::Group&, std::span<const float> values);

}  // namespace flotilla::comm
