#pragma once
// Private: words about groups, and where this rank stands in one.
#include <string>

#include "flotilla/comm/group.hpp"

namespace flotilla::comm {

/// "data group of rank 0 on n1, rank 2 on n2".
std::string describe(const World& world, const program::Group& group);
/// This rank's position. Throws Error{internal} when it is no member, or the members are not different ranks of the world.
int index_in(const World& world, const program::Group& group);

}  // namespace flotilla::comm
