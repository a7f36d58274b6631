// Groups that lie, are formed wrongly or fall silent must not pass.
#include <algorithm>

#include "comm/faulty_group.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "slow_ranks.hpp"
#include "world_fixture.hpp"

namespace flotilla::comm {
namespace {

using Kind = program::Group::Kind;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class VerifyTest : public WorldTest {
 protected:
  program::Group members(Kind kind, int first, int end) const {
    program::Group group{kind, {}};
    for (int r = first; r < end; ++r) group.members.push_back(Rank{r});
    return group;
  }
  std::string failure(const Groups& groups, Seconds deadline) {
    try {
      verify(world, groups, deadline);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::communication);
      return error.what();
    }
  }
};

TEST_F(VerifyTest, GoodGroupsPass) {
  std::vector<program::Group> groups{members(Kind::world, 0, size), members(Kind::data, 0, (size + 1) / 2),
                                     members(Kind::tied, size - 1, size)};
  for (int r = 0; r + 1 < size; r += 2) groups.push_back(members(Kind::tensor, r, r + 2));
  std::reverse(groups[0].members.begin(), groups[0].members.end());
  const Groups mine = form(world, groups, patience);
  EXPECT_EQ(mine.size(), groups.size());
  verify(world, mine, patience);  // and may be proved again
}

TEST_F(VerifyTest, NoGroupsAtAllPass) { EXPECT_TRUE(form(world, {}, patience).empty()); }

TEST_F(VerifyTest, WrongSumOnOneRankFailsEverywhereWithNames) {
  if (size == 1) return;  // a sum over oneself does not travel
  Groups groups = connect(world, {members(Kind::data, 0, size)});
  if (me == 1) groups[0] = std::make_unique<FaultyGroup>(std::move(groups[0]));
  const std::string why = failure(groups, patience);
  EXPECT_TRUE(contains(why, to_string(Kind::data) + " group of ")) << why;
  EXPECT_TRUE(contains(why, world.name(Rank{1}))) << why;
  EXPECT_TRUE(contains(why, "known values came out wrong (element 1 of")) << why;
}

TEST_F(VerifyTest, RankThatTakesAnotherOrderOfMembersIsFound) {
  if (size < 3) return;  // takes two others to swap
  program::Group group = members(Kind::tensor, 0, size);
  if (me == 0) std::swap(group.members[1], group.members[2]);
  Groups groups;
  groups.push_back(make_mpi_group(world, group, 0, 1000));
  const std::string why = failure(groups, patience);
  EXPECT_TRUE(contains(why, to_string(Kind::tensor) + " group of ")) << why;
  EXPECT_TRUE(contains(why, "another order of them")) << why;
}

/// A member that is stopped: named, with the group and its kind, within the deadline.
TEST_F(VerifyTest, StoppedMemberIsNamed) {
  if (size < 3) return;  // takes rank 0, a waiting member and the stopped one
  const Groups groups = connect(world, {members(Kind::data, 1, size), members(Kind::world, 0, 1)});
  std::string why;
  const auto prove = [&] {
    await_words_of_all_but(world, size - 1);
    // The members soon say who does not answer; rank 0, in no group with it, hears them and is then not long in giving it up.
    why = failure(groups, me == 0 ? Seconds{0.1} : Seconds{2});
  };
  while_stopped(size - 1, prove);
  if (me == size - 1) prove();  // and learns of it later
  EXPECT_TRUE(contains(why, to_string(Kind::data) + " group of ")) << why;
  EXPECT_TRUE(contains(why, "from " + world.name(Rank{size - 1}))) << why;
}

}  // namespace
}  // namespace flotilla::comm
