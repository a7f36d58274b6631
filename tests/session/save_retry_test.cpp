// When a save is tried again after the disk was full or away.
#include "save_retry.hpp"

#include <gtest/gtest.h>

namespace flotilla::session {
namespace {

TEST(SaveRetry, PausesGrowToABound) {
  EXPECT_EQ(growing_pause(1, Seconds{5}, Seconds{120}), Seconds{5});
  EXPECT_EQ(growing_pause(3, Seconds{5}, Seconds{120}), Seconds{20});
  EXPECT_EQ(growing_pause(1'000'000'000, Seconds{5}, Seconds{120}), Seconds{120});
}

TEST(SaveRetry, NothingIsDueWhileSavesWork) {
  const SaveRetry retry;
  EXPECT_FALSE(retry.failing());
  EXPECT_FALSE(retry.due(Seconds{1e9}));
}

TEST(SaveRetry, IsDueAfterThePause) {
  SaveRetry retry;
  retry.failed(Seconds{100});
  EXPECT_TRUE(retry.failing());
  EXPECT_FALSE(retry.due(Seconds{104.9}));
  EXPECT_TRUE(retry.due(Seconds{105}));
  retry.failed(Seconds{105});
  EXPECT_FALSE(retry.due(Seconds{114.9})) << "the second pause is longer";
  EXPECT_TRUE(retry.due(Seconds{115}));
}

TEST(SaveRetry, ASaveThatWorksForgetsTheFailures) {
  SaveRetry retry;
  for (int i = 0; i < 8; ++i) retry.failed(Seconds{0});
  retry.worked();
  EXPECT_FALSE(retry.failing());
  retry.failed(Seconds{10});
  EXPECT_TRUE(retry.due(Seconds{15}));
}

TEST(RoomWait, TriesUntilTheLastMomentAtWhichASaveFits) {
  const RoomWait wait{Seconds{0}, Seconds{600}, Seconds{30}, Seconds{5}};
  EXPECT_EQ(wait.pause(Seconds{0}, 1), Seconds{1});
  EXPECT_EQ(wait.pause(Seconds{10}, 4), Seconds{8});
  EXPECT_EQ(wait.pause(Seconds{20}, 5), Seconds{3}) << "the last try begins 7 s before the end";
  EXPECT_EQ(wait.pause(Seconds{23}, 6), std::nullopt);
}

TEST(RoomWait, WithoutAnEndWaitsForAWhile) {
  const RoomWait wait{Seconds{100}, Seconds{600}, std::nullopt, Seconds{5}};
  EXPECT_EQ(wait.pause(Seconds{100}, 20), Seconds{15});
  EXPECT_EQ(wait.pause(Seconds{699}, 20), Seconds{1});
  EXPECT_EQ(wait.pause(Seconds{700}, 20), std::nullopt);
}

TEST(RoomWait, SaysSoAtOnceAndThenEverMoreSeldom) {
  RoomWait wait{Seconds{100}, Seconds{600}, std::nullopt, Seconds{5}};
  std::vector<double> lines;
  for (double time = 100; time < 700; ++time)
    if (wait.line_is_due(Seconds{time})) lines.push_back(time - 100);
  EXPECT_EQ(lines, (std::vector<double>{0, 10, 20, 40, 80, 160, 320}));
}

}  // namespace
}  // namespace flotilla::session
