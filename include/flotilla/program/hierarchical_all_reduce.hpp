#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/program/program.hpp"

/// How a sum hierarchically is made, stated once for the runtime that executes it and the simulator that times it. Level by level, from the
/// inside out: the subgroups of the level before have each a sum of their own, divided among their members; along the common refinement of
/// these divisions every piece is cut into as many as there are subgroups, and each subgroup's holder of a piece gives the others theirs
/// and adds what it is given, in the order of the subgroups. So a sum over nodes crosses the links between them once for each node, not
/// once for each member. Going back, the sums take the same ways. A group without subgroups is one level of its members.
namespace flotilla::program {

/// Positions in a row of n elements are stated in parts of it: position(n, x) = floor(n x / whole_row).
inline constexpr int row_bits = 24;
inline constexpr std::int64_t whole_row = std::int64_t{1} << row_bits;
constexpr std::int64_t position(std::int64_t elements, std::int64_t part) { return (elements * part) >> row_bits; }

/// From `first` to `last`, in parts of the whole.
struct RowRange {
  std::int64_t first = 0, last = 0;
  bool operator==(const RowRange&) const = default;
};

/// What one member does at one level.
struct ReductionLevel {
  /// It adds: contributions of these members in this order, itself among them.
  struct Adding {
    RowRange row_range;
    std::vector<int> from;
  };
  /// It gives its contribution away.
  struct Giving {
    RowRange row_range;
    int to = -1;
  };
  std::vector<Adding> adds;
  std::vector<Giving> gives;
};
/// From the inside out.
std::vector<ReductionLevel> reduction_levels(const Group& group, int member);

/// What a member has of the sum when all levels are done, ascending: its share, where optimizers are sharded.
std::vector<RowRange> share_of(const Group& group, int member);

/// Bounds on what a member of a group takes: in elements, parts / whole_row of those summed and `pieces` more for rounding.
struct ReductionBound {
  std::int64_t parts = 0, pieces = 0;
  auto operator<=>(const ReductionBound&) const = default;
  std::int64_t elements(std::int64_t of) const { return position(of, parts) + pieces; }
};
struct ReductionBounds {
  ReductionBound staging;  ///< others' contributions, at one level at a time
  ReductionBound share;    ///< share_of
  auto operator<=>(const ReductionBounds&) const = default;
};
/// By member. Members whose rooms differ by no more than rounding have equal ones.
std::vector<ReductionBounds> reduction_bounds(const Group& group);

/// Exactly what a member's staging takes.
Bytes sum_staging(const Group& group, int member, Bytes size, Bytes element);

}  // namespace flotilla::program
