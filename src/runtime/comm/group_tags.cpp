#include "group_tags.hpp"

#include <algorithm>

namespace flotilla::comm {

TagSlots tag_slots(const std::vector<program::Group>& groups, int ranks) {
  std::vector<std::vector<bool>> taken(static_cast<std::size_t>(ranks));  // by rank and slot
  TagSlots result;
  for (const program::Group& group : groups) {
    std::size_t slot = 0;
    const auto taken_by = [&](Rank member) { return slot < taken[member.index()].size() && taken[member.index()][slot]; };
    while (std::ranges::any_of(group.members, taken_by)) ++slot;
    for (const Rank member : group.members) {
      auto& mine = taken[member.index()];
      mine.resize(std::max(mine.size(), slot + 1));
      mine[slot] = true;
    }
    result.slot.push_back(static_cast<int>(slot));
    result.slots = std::max(result.slots, static_cast<int>(slot) + 1);
  }
  return result;
}

}  // namespace flotilla::comm
