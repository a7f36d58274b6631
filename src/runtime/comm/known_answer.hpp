#pragma once
// Private: data whose sum every member can compute to the last bit.
#include <cstdint>
#include <span>

namespace flotilla::comm {

/// What member `member` contributes at `element`. Magnitudes spread over 2^±8, so that another order of the members, or another set of
/// them, gives other bits.
float known_contribution(int member, std::int64_t element) noexcept;
/// The sum of `members` contributions in member order.
float known_sum(int members, std::int64_t element) noexcept;

void fill_known(int member, std::span<float> values) noexcept;
/// First element whose bits are not those of the known sum, or -1. Looks at all of them, or in large groups at every k-th.
std::int64_t first_wrong(int members, std::span<const float> values) noexcept;

}  // namespace flotilla::comm
