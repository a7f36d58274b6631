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
using flotilla::probe::Stretch;
using flotilla::probe::summarize;
using flotilla::probe::Visit;
using flotilla::probe::visit;

/// Every operation takes `seconds` in the mean, `quick` at its quickest.
Visit took(double seconds, double quick, double disturbance) {
  return {std::vector<double>(13, seconds), std::vector<double>(13, quick),
          std::vector<double>(13, 1),       Seconds{1},
          Seconds{1 - disturbance},         Seconds{1}};
}

/// Of a crowded rank: `runs` of `seconds` of processor time, in a visit that computed for `busy` of `wall`.
Visit computed(double seconds, double runs, double wall, double busy) {
  return {std::vector<double>(13, seconds),
          std::vector<double>(13, seconds),
          std::vector<double>(13, runs),
          Seconds{wall},
          Seconds{busy},
          Seconds{wall}};
}

Stretch stretch_of(const std::vector<Visit>& visits, double least = 1) {
  Stretch stretch{least};
  for (std::size_t round = 0; round < visits.size(); ++round) stretch.add(round, visits[round].wall, visits[round].busy);
  return stretch;
}

TEST(Summarize, IsTheMedianOfUndisturbedVisits) {
  const auto times = summarize({}, {took(2, 1, 0), took(3, 1, 0.01), took(50, 1, 0.6), took(4, 1, 0.02), took(60, 1, 0.7)});
  EXPECT_EQ(times.seconds[0], Seconds{3});
  EXPECT_DOUBLE_EQ(times.scatter[0], 1.0 / 3.0) << "of 2, 3 and 4";
}

TEST(Summarize, BelievesTheQuickestRunsWhereAllWereDisturbed) {
  const auto times = summarize({}, {took(50, 2, 0.6), took(40, 3, 0.5), took(60, 4, 0.7)});
  EXPECT_EQ(times.seconds[0], Seconds{3});
  EXPECT_DOUBLE_EQ(times.scatter[0], 0.6) << "nobody knows by how much";
}

TEST(Summarize, RanksThatTakeTurnsWillDoSoInTraining) {
  const std::vector<Visit> visits{took(2, 1, 0.6), took(2, 1, 0.5), took(2, 1, 0.7)};
  const auto times = summarize({}, visits, stretch_of(visits));
  EXPECT_DOUBLE_EQ(times.seconds[0].value, 5) << "3 s by the clock, 1.2 s computed: 2.5 times";
  EXPECT_NEAR(times.scatter[0], 4.0 / 15, 1e-12) << "of 4, 5 and 6 2/3, as each round was stretched";
}

/// Bursts of 4 ms every 40 ms: a visit holds two or three pauses between its bursts.
TEST(Summarize, AVisitsPartOfABurstSaysNothing) {
  const std::vector<Visit> visits{computed(0.5, 12, 0.078, 0.006), computed(0.5, 20, 0.082, 0.010), computed(0.5, 16, 0.080, 0.008)};
  const auto times = summarize({}, visits, stretch_of(visits));
  EXPECT_DOUBLE_EQ(times.seconds[0].value, 0.5 * 0.24 / 0.024);
}

/// What took long ran seldom in its slice of time: runs count, not visits.
TEST(Summarize, ACrowdedRanksRunsCountAlike) {
  const std::vector<Visit> visits{computed(1, 30, 1, 1), computed(5, 6, 1, 1)};
  EXPECT_DOUBLE_EQ(summarize({}, visits, stretch_of(visits)).seconds[0].value, 60.0 / 36);
}

TEST(Summarize, ACrowdedRanksHalvesComeFromTheVisitsThatMeasuredThem) {
  std::vector<Visit> visits{took(2, 1, 0.5), took(2, 1, 0.5)};
  for (std::size_t v = 0; v < visits.size(); ++v)
    for (auto* values : {&visits[v].seconds, &visits[v].quick, &visits[v].runs})
      values->resize(flotilla::probe::measured_count, v == 0 ? 0 : 3);
  const auto stretch = stretch_of(visits);
  EXPECT_EQ(summarize({}, visits, stretch).seconds.back(), Seconds{6});
  EXPECT_EQ(summarize({}, {visits[0]}, stretch).seconds.back(), Seconds{0}) << "never measured";
}

TEST(Stretch, IsTheSumOverTheSum) {
  Stretch stretch;
  EXPECT_EQ(stretch.all(), 1) << "of nothing";
  stretch.add(0, Seconds{6}, Seconds{1});
  stretch.add(0, Seconds{4}, Seconds{3});
  stretch.add(1, Seconds{5}, Seconds{1});
  EXPECT_DOUBLE_EQ(stretch.all(), 3);
  EXPECT_DOUBLE_EQ(stretch.of_round(0), 2.5) << "of all shapes";
  EXPECT_DOUBLE_EQ(stretch.of_round(1), 5);
}

/// Shorter than the quota's part of a period, a visit is not stretched at all; a step is.
TEST(Stretch, IsNeverLessThanAQuotaMakesOfLongWork) {
  Stretch stretch{2.5};
  EXPECT_EQ(stretch.all(), 2.5);
  stretch.add(0, Seconds{0.02}, Seconds{0.02});
  EXPECT_EQ(stretch.all(), 2.5);
  EXPECT_EQ(stretch.of_round(0), 2.5);
  stretch.add(1, Seconds{0.3}, Seconds{0.1});
  EXPECT_DOUBLE_EQ(stretch.all(), 0.32 / 0.12);
}

TEST(Stretch, SaysWhatOthersTookWhereItIsFarMoreThanTheQuotasDoing) {
  Stretch usual{2}, shared{2}, no_quota;
  EXPECT_EQ(usual.taken_by_others(), 0) << "of nothing";
  usual.add(0, Seconds{2.8}, Seconds{1});
  EXPECT_EQ(usual.taken_by_others(), 0);
  shared.add(0, Seconds{5}, Seconds{1});
  EXPECT_DOUBLE_EQ(shared.taken_by_others(), 0.6);
  no_quota.add(0, Seconds{5}, Seconds{1});
  EXPECT_EQ(no_quota.taken_by_others(), 0);
  const std::vector<Visit> visits{computed(1, 1, 5, 1), computed(1, 1, 5, 1)};
  EXPECT_DOUBLE_EQ(summarize({}, visits, stretch_of(visits, 2)).scatter[0], 0.6) << "though both visits agree";
}

/// What the quota cannot have done others did, as long as other rounds show less.
TEST(Stretch, LeavesOutRoundsThatOthersDisturbed) {
  const std::vector<Visit> visits{computed(9, 2, 12, 1), computed(1, 5, 3, 1), computed(2, 5, 2, 1)};
  const auto stretch = stretch_of(visits, 2);
  EXPECT_FALSE(stretch.counts(0));
  EXPECT_TRUE(stretch.counts(1));
  EXPECT_DOUBLE_EQ(stretch.all(), 2.5);
  EXPECT_DOUBLE_EQ(summarize({}, visits, stretch).seconds[0].value, 2.5 * 1.5) << "nor do its runs count";
  EXPECT_TRUE(stretch_of(visits).counts(0)) << "without a quota nobody knows whose doing it was";
}

/// Bursts of 4 ms, pauses of 36: a slice that begins in the middle of a burst and ends in the third pause.
TEST(Stretch, APauseAtAVisitsEndCountsHalf) {
  Visit v = computed(0.001, 10, 0.119, 0.011);
  v.wall_before = Seconds{0.081};
  v.busy_before = Seconds{0.009};
  Stretch stretch;
  add(stretch, 0, v);
  EXPECT_DOUBLE_EQ(stretch.all(), 10);
  Stretch of_one_pass;
  add(of_one_pass, 0, computed(0.001, 1, 0.3, 0.1));
  EXPECT_DOUBLE_EQ(of_one_pass.all(), 0.3 / 0.1);
}

TEST(LeastStretch, IsThreadsOverQuota) {
  using flotilla::probe::least_stretch;
  EXPECT_DOUBLE_EQ(least_stretch(1, 0.4), 2.5);
  EXPECT_DOUBLE_EQ(least_stretch(2, 1.5), 2 / 1.5);
  EXPECT_EQ(least_stretch(1, 1.5), 1) << "does not bind";
  EXPECT_EQ(least_stretch(4, 0), 1) << "no quota";
}

TEST(Disturbance, IsTheShareOfTheTimeThatWasNotComputed) {
  EXPECT_DOUBLE_EQ(computed(1, 1, 4, 1).disturbance(), 0.75);
  EXPECT_EQ(computed(1, 1, 4, 5).disturbance(), 0) << "clocks differ";
  EXPECT_EQ(computed(1, 1, 0, 0).disturbance(), 0);
}

/// Halves are measured in some visits alone.
TEST(Summarize, TakesHalvesFromTheVisitsThatMeasuredThem) {
  const auto visit_with = [](double half, double disturbance) {
    Visit v = took(2, 1, disturbance);
    for (auto* values : {&v.seconds, &v.quick}) values->resize(flotilla::probe::measured_count, half);
    return v;
  };
  const auto times = summarize({}, {visit_with(0, 0), visit_with(5, 0.01), visit_with(0, 0), visit_with(9, 0.5)});
  EXPECT_EQ(times.seconds[0], Seconds{2});
  EXPECT_EQ(times.seconds.back(), Seconds{5}) << "not the disturbed one's";
  EXPECT_DOUBLE_EQ(times.scatter.back(), 0);
  const auto disturbed = summarize({}, {visit_with(0, 0), visit_with(9, 0.5)});
  EXPECT_EQ(disturbed.seconds.back(), Seconds{9});
  EXPECT_DOUBLE_EQ(disturbed.scatter.back(), 0.5);
  EXPECT_DOUBLE_EQ(disturbed.scatter[0], 0);
  EXPECT_EQ(summarize({}, {visit_with(0, 0)}).seconds.back(), Seconds{0}) << "never measured";
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
    EXPECT_GE(result.disturbance(), 0);
    EXPECT_LT(result.disturbance(), 1);
  }
}

/// A thread beside this one on its processor takes about half of its time, in turns that are as long as many operations: by the clock they
/// would take longer than what was computed in all.
TEST(Visiting, ACrowdedRanksOperationsAreInProcessorTime) {
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
  double computed = 0;
  for (std::size_t o = 0; o < result.seconds.size(); ++o) computed += result.runs[o] * result.seconds[o];
  EXPECT_GT(computed, 0);
  EXPECT_LE(computed, result.busy.value * (1 + 1e-9));
  EXPECT_LE(result.busy.value, result.wall.value * 1.01);
}

}  // namespace
