// Whether two plans fit side by side, and what happens where they do not.
#include "memory_need.hpp"

#include <gtest/gtest.h>

namespace flotilla::session {
namespace {

using Verdict = Readiness::Verdict;

Readiness readiness(std::vector<MemoryNeed> needs, bool plan_is_given = false) {
  return readiness_of(needs, plan_is_given, [](Rank rank) { return "n" + std::to_string(rank.value); });
}

TEST(MemoryNeed, TheSmallerLimitCounts) {
  EXPECT_EQ(memory_limit(Bytes{5}, Bytes{7}), Bytes{5});
  EXPECT_EQ(memory_limit(Bytes{9}, Bytes{7}), Bytes{7});
  EXPECT_EQ(memory_limit(Bytes{0}, Bytes{7}), Bytes{7});
  EXPECT_EQ(memory_limit(Bytes{5}, Bytes{0}), Bytes{5});
  EXPECT_EQ(memory_limit(Bytes{0}, Bytes{0}), Bytes{0});
}

TEST(MemoryNeed, OfAGpuAndItsHostTheTighterCounts) {
  const MemoryNeed gpu{50, 80}, host{70, 90}, unknown{99, 0};
  EXPECT_EQ(tighter(gpu, host).peak, 70) << "20 are left of 90, and 30 of 80";
  EXPECT_EQ(tighter(host, gpu).peak, 70);
  EXPECT_EQ(tighter(gpu, unknown).peak, 50);
  EXPECT_EQ(tighter(unknown, host).peak, 70);
  EXPECT_EQ(tighter(unknown, unknown).limit, 0);
}

TEST(MemoryNeed, AllRanksMustHoldBothPlans) {
  EXPECT_EQ(readiness({{10, 10, false}, {99, 0, false}}).verdict, Verdict::go_on) << "a limit that nobody knows excludes nothing";
  const auto lacks = readiness({{10, 10, false}, {2048, 1024, false}, {4096, 1024, false}});
  EXPECT_EQ(lacks.verdict, Verdict::save);
  EXPECT_EQ(lacks.why, "n1 needs 2.00 KiB for both plans and may use 1.00 KiB");
}

TEST(MemoryNeed, CopiesOfTheStateNeedRoomOnAllRanks) {
  const auto name = [](Rank rank) { return "n" + std::to_string(rank.value); };
  const std::vector<MemoryNeed> enough{{1024, 1024, false}, {0, 0, false}, {99, 0, false}}, lacking{{10, 10, false}, {1025, 1024, false}};
  EXPECT_EQ(no_room_for_copies(enough, name), "") << "to the last byte, and a limit that nobody knows excludes nothing";
  EXPECT_EQ(no_room_for_copies(lacking, name), "n1 needs 1.00 KiB with a copy of what it saves and may use 1.00 KiB");
}

TEST(MemoryNeed, WhereARestartWouldTakeTheOldPlanAgainTheNewOneIsRefused) {
  const auto refused = readiness({{2048, 1024, false}}, true);
  EXPECT_EQ(refused.verdict, Verdict::refuse);
  EXPECT_NE(refused.why.find("; a restart would take --plan again, so give it the new plan"), std::string::npos);
  EXPECT_EQ(readiness({{10, 10, false}}, true).verdict, Verdict::go_on);
}

TEST(MemoryNeed, ARunThatEndsMakesNothingReady) {
  const auto ends = readiness({{10, 10, false}, {10, 10, true}});
  EXPECT_EQ(ends.verdict, Verdict::refuse);
  EXPECT_EQ(ends.why, "the run ends");
  EXPECT_EQ(readiness({{2048, 1024, true}}).verdict, Verdict::refuse) << "nor is it saved under a plan that it will not need";
}

}  // namespace
}  // namespace flotilla::session
