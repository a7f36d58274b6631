// A change of plan from the wish to the move: the first rank and the others advance alike.
#include "plan_switch.hpp"

#include <gtest/gtest.h>

namespace flotilla::session {
namespace {

NextPlan wish(const std::string& reason) { return {{}, reason, ""}; }

TEST(PlanSwitch, TellsOfAWishAndAgainWhenItIsReady) {
  PlanSwitch first;
  EXPECT_FALSE(first.tells(false));
  first.want(wish("asked for"));
  EXPECT_TRUE(first.tells(false)) << "the next step tells the active ranks";
  EXPECT_EQ(first.advance(), PlanSwitch::Advance::prepare);
  EXPECT_TRUE(first.preparing());
  EXPECT_FALSE(first.tells(false)) << "steps go on meanwhile";
  EXPECT_TRUE(first.tells(true));
  EXPECT_EQ(first.advance(), PlanSwitch::Advance::take);
}

TEST(PlanSwitch, RanksThatKnowNothingOfTheWishAdvanceAlike) {
  PlanSwitch other;
  EXPECT_FALSE(other.tells(true)) << "only the first tells";
  EXPECT_EQ(other.advance(), PlanSwitch::Advance::prepare);
  EXPECT_FALSE(other.wanted());
  EXPECT_EQ(other.advance(), PlanSwitch::Advance::take);
}

TEST(PlanSwitch, ARefusalMakesRoomForTheNextWish) {
  PlanSwitch first;
  first.want(wish("one"));
  first.advance();
  first.refuse();
  EXPECT_FALSE(first.preparing());
  EXPECT_FALSE(first.tells(true));
  first.want(wish("two"));
  EXPECT_EQ(first.wanted()->reason, "two");
  EXPECT_EQ(first.advance(), PlanSwitch::Advance::prepare);
}

}  // namespace
}  // namespace flotilla::session
