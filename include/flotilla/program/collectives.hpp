#pragma once
#include <cstdint>

#include "flotilla/base/units.hpp"

namespace flotilla::program {

/// How a sum over a group is made, stated once for the runtime that executes it and the simulator that times it ("direct"): piece j of n
/// elements is [n*j/G, n*(j+1)/G); every member sends piece j to member j, which adds the G contributions in the group's order and sends
/// the sum to everybody. The order of every sum is thus the group's, whatever the library underneath.
struct Piece {
  std::int64_t first = 0, last = 0;
  constexpr std::int64_t count() const { return last - first; }
};
constexpr Piece piece(std::int64_t elements, int members, int index) {
  return {elements * index / members, elements * (index + 1) / members};
}

/// Room for the other members' contributions to one's own piece: (G - 1) x ceil(n / G) elements.
constexpr Bytes all_reduce_staging(Bytes size, Bytes element, int members) {
  const std::int64_t elements = size.count / element.count;
  return {(members - 1) * ((elements + members - 1) / members) * element.count};
}

/// The same where pieces are cut between units (the bytes of a token) and not between elements, as a reduce-scatter cuts them.
constexpr Bytes reduce_scatter_staging(std::int64_t units, Bytes unit, int members) {
  return {(members - 1) * ((units + members - 1) / members) * unit.count};
}

}  // namespace flotilla::program
