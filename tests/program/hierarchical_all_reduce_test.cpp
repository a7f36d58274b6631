// Sums hierarchically: every element is added once by one member at each level, in the order of the subgroups; shares cover everything
// once; and what crosses the links between nodes is what one member of each would send.
#include "flotilla/program/hierarchical_all_reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "random_plan.hpp"

namespace flotilla::program::hierarchical_all_reduce_test {
namespace {

Group group_of(const RankLocations& placement) {
  Group group;
  for (std::size_t r = 0; r < placement.node.size(); ++r) group.members.emplace_back(static_cast<int>(r));
  group.subgroups = subgroups_of({group.members}, placement);
  return group;
}

/// Who has added an element: members in nested brackets.
std::string expected_sum(const Group& group, const std::vector<int>& members, std::size_t level) {
  if (members.size() == 1) return std::to_string(members.front());
  std::map<int, std::vector<int>> subgroups;
  for (int m : members) subgroups[level == 0 ? m : group.subgroups[level - 1][static_cast<std::size_t>(m)]].push_back(m);
  if (subgroups.size() == 1) return expected_sum(group, members, level - 1);
  std::string sum;
  for (const auto& [subgroup, inside] : subgroups)
    sum += (sum.empty() ? "(" : "+") + expected_sum(group, inside, level == 0 ? 0 : level - 1);
  return sum + ")";
}

/// Runs the levels on `elements` elements of every member; by member and element what it has.
std::vector<std::vector<std::string>> summed(const Group& group, std::int64_t elements) {
  const std::size_t members = group.members.size();
  std::vector<std::vector<std::string>> have(members);
  for (std::size_t m = 0; m < members; ++m) have[m].assign(static_cast<std::size_t>(elements), std::to_string(m));
  std::vector<std::vector<ReductionLevel>> levels;
  for (std::size_t m = 0; m < members; ++m) levels.push_back(reduction_levels(group, static_cast<int>(m)));
  for (std::size_t l = 0; l <= group.subgroups.size(); ++l) {
    const auto before = have;
    for (std::size_t m = 0; m < members; ++m)
      for (const auto& adding : levels[m][l].adds)
        for (auto i = position(elements, adding.row_range.first); i < position(elements, adding.row_range.last); ++i) {
          std::string sum;
          for (int from : adding.from) {
            sum += (sum.empty() ? "(" : "+") + before[static_cast<std::size_t>(from)][static_cast<std::size_t>(i)];
            const auto& gives = levels[static_cast<std::size_t>(from)][l].gives;
            const bool given = std::ranges::any_of(
                gives, [&](const auto& giving) { return giving.to == static_cast<int>(m) && giving.row_range == adding.row_range; });
            EXPECT_TRUE(given || from == static_cast<int>(m)) << "member " << from << " does not know that it gives to " << m;
          }
          have[m][static_cast<std::size_t>(i)] = sum + ")";
        }
  }
  return have;
}

void expect_right(const Group& group, std::int64_t elements) {
  std::vector<int> all;
  for (std::size_t m = 0; m < group.members.size(); ++m) all.push_back(static_cast<int>(m));
  const auto want = expected_sum(group, all, group.subgroups.size());
  const auto have = summed(group, elements);
  const auto rooms = reduction_bounds(group);
  std::vector<int> owners(static_cast<std::size_t>(elements), 0);
  for (int m : all) {
    std::int64_t mine = 0;
    for (const auto& row_range : share_of(group, m))
      for (auto i = position(elements, row_range.first); i < position(elements, row_range.last); ++i, ++mine) {
        EXPECT_EQ(have[static_cast<std::size_t>(m)][static_cast<std::size_t>(i)], want);
        ++owners[static_cast<std::size_t>(i)];
      }
    EXPECT_LE(mine, rooms[static_cast<std::size_t>(m)].share.elements(elements));
    EXPECT_LE(sum_staging(group, m, {4 * elements}, {4}).count, 4 * rooms[static_cast<std::size_t>(m)].staging.elements(elements));
  }
  EXPECT_TRUE(std::ranges::all_of(owners, [](int count) { return count == 1; }));
}

TEST(HierarchicalAllReduce, AddsEverythingOnceInTheOrderOfTheTeams) {
  std::mt19937 random{7};
  for (int trial = 0; trial < 60; ++trial) {
    const auto group = group_of([&] {
      for (;;)
        if (auto placement = tests::any_placement(random, tests::between(random, 2, 12)); !placement.node.empty()) return placement;
    }());
    expect_right(group, tests::between(random, 1, 60));
  }
}

TEST(HierarchicalAllReduce, LevelsThatChangeNothingAreLeftOut) {
  EXPECT_TRUE(group_of({{0, 0, 0, 0}, {0, 0, 0, 0}}).subgroups.empty());
  EXPECT_TRUE(group_of({{0, 1, 2, 3}, {0, 0, 0, 0}}).subgroups.empty());
  EXPECT_EQ(group_of({{0, 0, 1, 1}, {0, 0, 0, 0}}).subgroups, (SubgroupLevels{{0, 0, 1, 1}}));
  EXPECT_EQ(group_of({{0, 0, 1, 1}, {0, 0, 1, 1}}).subgroups, (SubgroupLevels{{0, 0, 1, 1}}));
  EXPECT_EQ(group_of({{0, 1, 2, 3}, {0, 0, 1, 1}}).subgroups, (SubgroupLevels{{0, 0, 1, 1}}));
  EXPECT_EQ(group_of({{0, 0, 1, 2}, {0, 0, 0, 1}}).subgroups, (SubgroupLevels{{0, 0, 1, 2}, {0, 0, 0, 1}}));
}

/// All groups of a tensor-parallel stage add in one order: replicas that share a node in one of them only are not taken for a subgroup.
TEST(HierarchicalAllReduce, ReplicasMustStandTogetherInEveryGroup) {
  const RankLocations placement{{0, 0, 0, 1, 1, 1, 1, 1}, std::vector<int>(8, 0)};
  const std::vector<Rank> first{Rank{0}, Rank{1}, Rank{3}, Rank{4}}, second{Rank{2}, Rank{5}, Rank{6}, Rank{7}};
  EXPECT_EQ(subgroups_of({first}, placement), (SubgroupLevels{{0, 0, 1, 1}}));
  EXPECT_EQ(subgroups_of({first, second}, placement), (SubgroupLevels{{0, 1, 2, 2}}));
}

TEST(HierarchicalAllReduce, LinksBetweenNodesCarryEachByteOnceForANode) {
  const auto group = group_of({{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, std::vector<int>(12, 0)});
  constexpr std::int64_t elements = 1200;
  std::vector<std::int64_t> leaves(3, 0);
  for (int m = 0; m < 12; ++m) {
    const auto levels = reduction_levels(group, m);
    for (const auto& level : levels)
      for (const auto& giving : level.gives)
        if (m / 4 != giving.to / 4)
          leaves[static_cast<std::size_t>(m / 4)] += position(elements, giving.row_range.last) - position(elements, giving.row_range.first);
  }
  for (const auto count : leaves) EXPECT_NEAR(static_cast<double>(count), elements * 2.0 / 3, 12);  // two thirds are summed elsewhere
}

TEST(HierarchicalAllReduce, MembersThatDifferByRoundingHaveOneRoom) {
  for (int members : {3, 7, 12, 60, 1000}) {
    Group group;
    for (int m = 0; m < members; ++m) group.members.emplace_back(m);
    const auto rooms = reduction_bounds(group);
    EXPECT_TRUE(std::ranges::all_of(rooms, [&](const auto& room) { return room == rooms.front(); })) << members;
  }
}

}  // namespace
}  // namespace flotilla::program::hierarchical_all_reduce_test
