// When another plan is worth its change.
#include "change_worth.hpp"

#include <gtest/gtest.h>

namespace flotilla::session {
namespace {

ChangeOffer offer(double stays, double changed, double moving, std::int64_t steps_left) {
  return {Seconds{stays}, Seconds{changed}, Seconds{moving}, steps_left};
}

TEST(ChangeWorth, ATwentiethOfAnIterationIsTheLeast) {
  EXPECT_TRUE(worth_changing(offer(1, 0.94, 0, 1'000'000)));
  EXPECT_FALSE(worth_changing(offer(1, 0.96, 0, 1'000'000))) << "a forecast may be off by that";
  EXPECT_FALSE(worth_changing(offer(1, 1.5, 0, 1'000'000)));
  EXPECT_FALSE(worth_changing(offer(1, 1, 0, 0)));
}

TEST(ChangeWorth, TheStepsLeftMustGainTwiceWhatItCosts) {
  // Half a second an iteration; the change costs two iterations and three seconds, 5 s.
  EXPECT_EQ(offer(1, 0.5, 3, 0).cost(), Seconds{5});
  EXPECT_TRUE(worth_changing(offer(1, 0.5, 3, 20)));
  EXPECT_FALSE(worth_changing(offer(1, 0.5, 3, 19)));
  EXPECT_TRUE(worth_changing(offer(1, 0.5, 0, 8))) << "nothing to move: two iterations";
  EXPECT_FALSE(worth_changing(offer(1, 0.5, 0, 7)));
}

}  // namespace
}  // namespace flotilla::session
