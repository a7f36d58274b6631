#include "group_tags.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace flotilla::comm {
namespace {

bool overlap(const program::Group& a, const program::Group& b) {
  return std::ranges::any_of(a.members, [&](Rank r) { return std::ranges::find(b.members, r) != b.members.end(); });
}

TEST(GroupTags, OverlappingGroupsDiffer) {
  std::mt19937 engine{3};
  for (int round = 0; round < 50; ++round) {
    const int ranks = 2 + static_cast<int>(engine() % 12);
    std::vector<program::Group> groups(1 + engine() % 20);
    for (auto& group : groups) {
      std::set<Rank> members;
      for (unsigned k = 0; k <= engine() % 6; ++k) members.insert(Rank{static_cast<int>(engine() % static_cast<unsigned>(ranks))});
      group.members.assign(members.begin(), members.end());
    }
    const TagSlots tags = tag_slots(groups, ranks);
    ASSERT_EQ(tags.slot.size(), groups.size());
    for (std::size_t a = 0; a < groups.size(); ++a) {
      EXPECT_LT(tags.slot[a], tags.slots);
      for (std::size_t b = 0; b < a; ++b) {
        if (overlap(groups[a], groups[b])) {
          EXPECT_NE(tags.slot[a], tags.slot[b]);
        }
      }
    }
  }
}

TEST(GroupTags, DisjointGroupsShareSoTagsLastForLargeJobs) {
  std::vector<program::Group> groups;
  for (int i = 0; i < 1000; ++i) groups.push_back({program::Group::Kind::tensor, {Rank{2 * i}, Rank{2 * i + 1}}});
  for (int i = 0; i < 1000; ++i) groups.push_back({program::Group::Kind::data, {Rank{i}, Rank{i + 1000}}});
  EXPECT_EQ(tag_slots(groups, 2000).slots, 2);
}

}  // namespace
}  // namespace flotilla::comm
