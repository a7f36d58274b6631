#pragma once
// Private: words about groups, and where this rank stands in one.
#include <cstddef>
#include <string>
#include <vector>

#include "flotilla/comm/process_group.hpp"

namespace flotilla::comm {

/// "data group of rank 0 on n1, rank 2 on n2".
std::string describe(const World& world, const program::Group& group);
/// This rank's position. Throws Error{internal} when it is no member, or the members are not different ranks of the world.
int index_in(const World& world, const program::Group& group);

/// Tags of each group's operations, on the host's memory and on a device's: a group may be connected both ways.
inline constexpr int ways_of_a_group = 2;
struct GroupTags {
  enum Way : int { host, device };
  std::vector<int> slot;  ///< by group
  int count = 0;          ///< of each group, either way
  int first(std::size_t group, Way way) const { return (ways_of_a_group * slot[group] + way) * count; }
};
/// The same on all ranks. Throws Error{internal} for a group of other ranks than the world's.
GroupTags group_tags(const World& world, const std::vector<program::Group>& groups);

}  // namespace flotilla::comm
