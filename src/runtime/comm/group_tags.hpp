#pragma once
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::comm {

/// Groups that share two ranks must not share tags, others may. Slots are given greedily, so that groups sharing any rank differ; every
/// rank computes the same.
struct TagSlots {
  std::vector<int> slot;  ///< by group
  int slots = 0;
};
TagSlots tag_slots(const std::vector<program::Group>& groups, int ranks);

}  // namespace flotilla::comm
