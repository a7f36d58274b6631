// The proof's data must tell faults apart, or the proof proves nothing.
#include "known_answer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace flotilla::comm {
namespace {

constexpr std::size_t count = 200;

program::Group group_of(int members, program::SubgroupLevels subgroups = {}) {
  program::Group group;
  for (int m = 0; m < members; ++m) group.members.emplace_back(m);
  group.subgroups = std::move(subgroups);
  return group;
}

std::vector<float> add(const std::vector<int>& members, bool any_order = false) {
  std::vector<float> sum(count);
  for (const int member : members)
    for (std::size_t i = 0; i < count; ++i) sum[i] += known_contribution(member, static_cast<std::int64_t>(i), any_order);
  return sum;
}

TEST(KnownAnswer, RightSumPasses) { EXPECT_EQ(first_wrong(group_of(5), add({0, 1, 2, 3, 4})), -1); }
TEST(KnownAnswer, MissingMemberShows) { EXPECT_GE(first_wrong(group_of(5), add({0, 1, 2, 4})), 0); }
TEST(KnownAnswer, MemberCountedTwiceShows) { EXPECT_GE(first_wrong(group_of(5), add({0, 1, 2, 3, 3, 4})), 0); }
TEST(KnownAnswer, StrangerInAMembersPlaceShows) { EXPECT_GE(first_wrong(group_of(5), add({0, 1, 7, 3, 4})), 0); }
TEST(KnownAnswer, AnotherOrderShows) { EXPECT_GE(first_wrong(group_of(5), add({0, 1, 3, 2, 4})), 0); }

TEST(KnownAnswer, TeamsSumInsideFirst) {
  const program::SubgroupLevels subgroups{{0, 0, 1, 1, 2}, {0, 0, 1, 1, 1}};
  std::vector<float> sum(count);
  const auto of = [](int member, std::size_t i) { return known_contribution(member, static_cast<std::int64_t>(i)); };
  for (std::size_t i = 0; i < count; ++i) sum[i] = (of(0, i) + of(1, i)) + ((of(2, i) + of(3, i)) + of(4, i));
  EXPECT_EQ(first_wrong(group_of(5, subgroups), sum), -1);
  EXPECT_GE(first_wrong(group_of(5), sum), 0);
  EXPECT_GE(first_wrong(group_of(5, subgroups), add({0, 1, 2, 3, 4})), 0);
}

/// NCCL's own sums have an order that nobody knows.
TEST(KnownAnswer, WhereTheLibrarySumsAnyOrderIsRightAndOtherMembersAreNot) {
  auto group = group_of(5);
  group.algorithm = program::Group::Algorithm::library_all_reduce;
  EXPECT_EQ(first_wrong(group, add({0, 1, 2, 3, 4}, true)), -1);
  EXPECT_EQ(first_wrong(group, add({4, 2, 0, 3, 1}, true)), -1);
  EXPECT_GE(first_wrong(group, add({0, 1, 2, 4}, true)), 0);
  EXPECT_GE(first_wrong(group, add({0, 1, 7, 3, 4}, true)), 0);
}

TEST(KnownAnswer, ShiftedElementsShow) {
  auto sum = add({0, 1, 2});
  sum.erase(sum.begin());
  EXPECT_EQ(first_wrong(group_of(3), sum), 0);
}

TEST(KnownAnswer, OneWrongBitShowsAndItsPlace) {
  auto sum = add({0, 1, 2});
  sum[137] = std::nextafter(sum[137], 0.0f);
  EXPECT_EQ(first_wrong(group_of(3), sum), 137);
}

TEST(KnownAnswer, NothingIsRight) { EXPECT_EQ(first_wrong(group_of(3), {}), -1); }

}  // namespace
}  // namespace flotilla::comm
