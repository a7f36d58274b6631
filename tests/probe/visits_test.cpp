#include "visits.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "flotilla/model/operations.hpp"

namespace {

using flotilla::Precision;
using flotilla::Seconds;
using flotilla::probe::FewBlocks;
using flotilla::probe::settled;
using flotilla::probe::Shape;
using flotilla::probe::summarize;
using flotilla::probe::Visit;
using flotilla::probe::visit;

/// Every operation takes `seconds` in the mean, `quick` at its quickest.
Visit took(double seconds, double quick, double disturbance) {
  return {std::vector<double>(13, seconds), std::vector<double>(13, quick), disturbance, Seconds{1}};
}

TEST(Summarize, IsTheMedianOfUndisturbedVisits) {
  const auto times = summarize({}, {took(2, 1, 0), took(3, 1, 0.01), took(50, 1, 0.6), took(4, 1, 0.02), took(60, 1, 0.7)}, false);
  EXPECT_EQ(times.seconds[0], Seconds{3});
  EXPECT_DOUBLE_EQ(times.scatter[0], 1.0 / 3.0) << "of 2, 3 and 4";
}

TEST(Summarize, BelievesTheQuickestRunsWhereAllWereDisturbed) {
  const auto times = summarize({}, {took(50, 2, 0.6), took(40, 3, 0.5), took(60, 4, 0.7)}, false);
  EXPECT_EQ(times.seconds[0], Seconds{3});
  EXPECT_DOUBLE_EQ(times.scatter[0], 0.6) << "nobody knows by how much";
}

TEST(Summarize, RanksThatTakeTurnsWillDoSoInTraining) {
  const auto times = summarize({}, {took(50, 2, 0.6), took(40, 3, 0.5), took(60, 4, 0.7)}, true);
  EXPECT_EQ(times.seconds[0], Seconds{50});
  EXPECT_DOUBLE_EQ(times.scatter[0], 0.2);
}

/// Halves are measured in some visits alone.
TEST(Summarize, TakesHalvesFromTheVisitsThatMeasuredThem) {
  const auto visit_with = [](double half, double disturbance) {
    Visit v = took(2, 1, disturbance);
    for (auto* values : {&v.seconds, &v.quick}) values->resize(flotilla::probe::measured_count, half);
    return v;
  };
  const auto times = summarize({}, {visit_with(0, 0), visit_with(5, 0.01), visit_with(0, 0), visit_with(9, 0.5)}, false);
  EXPECT_EQ(times.seconds[0], Seconds{2});
  EXPECT_EQ(times.seconds.back(), Seconds{5}) << "not the disturbed one's";
  EXPECT_DOUBLE_EQ(times.scatter.back(), 0);
  const auto disturbed = summarize({}, {visit_with(0, 0), visit_with(9, 0.5)}, false);
  EXPECT_EQ(disturbed.seconds.back(), Seconds{9});
  EXPECT_DOUBLE_EQ(disturbed.scatter.back(), 0.5);
  EXPECT_DOUBLE_EQ(disturbed.scatter[0], 0);
  EXPECT_EQ(summarize({}, {visit_with(0, 0)}, false).seconds.back(), Seconds{0}) << "never measured";
}

TEST(Settled, CountsUndisturbedVisits) {
  const std::vector<Visit> visits{took(1, 1, 0), took(1, 1, 0.5), took(1, 1, 0.04)};
  EXPECT_TRUE(settled(visits, 2, false));
  EXPECT_FALSE(settled(visits, 3, false));
  EXPECT_TRUE(settled(visits, 3, true));
}

TEST(Visiting, MeasuresEveryOperationAndGivesTheMemoryBack) {
  const Shape shape{Precision::fp32, 2, 1, true};
  FewBlocks blocks{flotilla::model::built_in("gpt2-tiny"), 16, shape, 1, 2};
  for (bool fresh : {true, false}) {
    const auto result = visit(blocks, shape, Seconds{0.01}, {.fresh = fresh, .halves = !fresh});
    ASSERT_EQ(result.seconds.size(), flotilla::probe::measured_count);
    for (std::size_t o = 0; o < result.seconds.size(); ++o) {
      if (fresh && o >= flotilla::probe::whole_count) {
        EXPECT_EQ(result.seconds[o], 0) << "halves were not asked for";
        continue;
      }
      EXPECT_GT(result.quick[o], 0);
      EXPECT_LE(result.quick[o], result.seconds[o]) << "the slowest of two is never the quickest tenth";
    }
    EXPECT_GE(result.took, Seconds{0.01});
    EXPECT_GE(result.disturbance, 0);
    EXPECT_LT(result.disturbance, 1);
  }
}

/// A thread beside this one on its processor takes about half of its time, in turns that are as long as many operations.
TEST(Visiting, ACrowdedRanksOperationsShareItsWaits) {
  const Shape shape{Precision::fp32, 1, 1, true};
  FewBlocks blocks{flotilla::model::built_in("gpt2-tiny"), 16, shape, 1, 2};
  (void)visit(blocks, shape, Seconds{0.01}, {.fresh = true});
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  std::atomic<bool> there{false}, over{false};
  std::thread other{[&] {
    there = true;
    while (!over) {
    }
  }};
  while (!there) std::this_thread::yield();
  const Visit result = visit(blocks, shape, Seconds{0.3}, {.crowded = true});
  over = true;
  other.join();
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_GT(result.disturbance, 0.2);
  for (std::size_t o = 0; o < result.seconds.size(); ++o) EXPECT_GE(result.seconds[o], result.quick[o] / (1 - result.disturbance));
}

}  // namespace
