// When the last step begins, and when the one in hand is given up.
#include "time_left.hpp"

#include <gtest/gtest.h>

namespace flotilla::session {
namespace {

TEST(TimeLeft, TheLastStepIsTheOneAfterWhichNoOtherFits) {
  TimeLeft left{Seconds{1000}, Seconds{60}, Seconds{10}, Seconds{5}};
  EXPECT_FALSE(left.last_step({915})) << "this step, another one, the save and the slack end at 1000";
  EXPECT_TRUE(left.last_step({915.1}));
  left.ends = std::nullopt;
  EXPECT_FALSE(left.last_step({1e9}));
}

TEST(TimeLeft, TheSaveForTheEndComesAfterTheOneUnderWay) {
  const TimeLeft left{Seconds{1000}, Seconds{60}, Seconds{10}, Seconds{5}};
  EXPECT_EQ(left.after_save({902}, {900}).save, Seconds{8}) << "3 of its 5 are left";
  EXPECT_EQ(left.after_save({950}, {900}).save, Seconds{5}) << "it takes longer than any before, and may end at any moment";
  EXPECT_FALSE(left.after_save({912}, {912}).last_step({910}));
  EXPECT_TRUE(left.after_save({912}, {912}).last_step({910.1})) << "910.1 + 2 x 10 + 2 x 5 + 60";
}

TEST(StepInHand, IsGivenUpWhereItsEndAndASaveComeAfterTheKill) {
  StepInHand hand{.began = Seconds{100}, .step = Seconds{20}, .save = Seconds{3}, .grace = Seconds{10}, .told = {}, .ends = {}};
  EXPECT_FALSE(hand.too_long({1e9})) << "nobody will be killed";
  hand.told = Seconds{115};  // killed at 125; a second is kept
  EXPECT_FALSE(hand.too_long({115})) << "120 + 3 + 1";
  hand.told = Seconds{113.9};
  EXPECT_TRUE(hand.too_long({113.9}));
  hand.told = Seconds{115};
  hand.ends = Seconds{123};
  EXPECT_TRUE(hand.too_long({115})) << "the job's time is over before";
}

TEST(StepInHand, ALongerStepThanEverGoesOnWhileASaveFits) {
  StepInHand hand{.began = Seconds{100}, .step = {}, .save = Seconds{3}, .grace = Seconds{10}, .told = Seconds{110}, .ends = {}};
  EXPECT_FALSE(hand.too_long({116}));
  EXPECT_TRUE(hand.too_long({116.1}));
}

TEST(StepInHand, TheFirstEndCounts) {
  StepInHand hand{.began = Seconds{100}, .step = {}, .save = {}, .grace = Seconds{10}, .told = {}, .ends = {}};
  EXPECT_FALSE(hand.killed());
  hand.told = Seconds{110};
  EXPECT_EQ(hand.killed(), Seconds{120});
  hand.ends = Seconds{115};
  EXPECT_EQ(hand.killed(), Seconds{115});
  hand.ends = Seconds{130};
  EXPECT_EQ(hand.killed(), Seconds{120});
}

TEST(StepInHand, ALittleIsKeptForWhatIsNotMeasured) {
  StepInHand hand;
  EXPECT_EQ(hand.reserve(), Seconds{0.5});
  hand.grace = {30};
  EXPECT_EQ(hand.reserve(), Seconds{3});
}

}  // namespace
}  // namespace flotilla::session
