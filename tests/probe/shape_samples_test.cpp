#include "shape_samples.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "flotilla/model/operations.hpp"

namespace {

using flotilla::Precision;
using flotilla::Seconds;
using flotilla::probe::FewBlocks;
using flotilla::probe::MeasuredShape;
using flotilla::probe::settled;
using flotilla::probe::shape_sample;
using flotilla::probe::ShapeSample;
using flotilla::probe::summarize;
using flotilla::probe::ThrottlingFactor;

/// Every operation takes `seconds` in the mean, `quick` at its quickest.
ShapeSample took(double seconds, double quick, double disturbance) {
  return {std::vector<double>(13, seconds), std::vector<double>(13, quick),
          std::vector<double>(13, 1),       Seconds{1},
          Seconds{1 - disturbance},         Seconds{1}};
}

/// Of a crowded rank: `runs` of `seconds` of processor time, in a visit that computed for `busy` of `wall`.
ShapeSample computed(double seconds, double runs, double wall, double busy) {
  return {std::vector<double>(13, seconds),
          std::vector<double>(13, seconds),
          std::vector<double>(13, runs),
          Seconds{wall},
          Seconds{busy},
          Seconds{wall}};
}

ThrottlingFactor throttling_of(const std::vector<ShapeSample>& shape_samples, double least = 1) {
  ThrottlingFactor throttling{least};
  for (std::size_t round = 0; round < shape_samples.size(); ++round)
    throttling.add(round, shape_samples[round].wall, shape_samples[round].busy);
  return throttling;
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
  const std::vector<ShapeSample> shape_samples{took(2, 1, 0.6), took(2, 1, 0.5), took(2, 1, 0.7)};
  const auto times = summarize({}, shape_samples, throttling_of(shape_samples));
  EXPECT_DOUBLE_EQ(times.seconds[0].value, 5) << "3 s by the clock, 1.2 s computed: 2.5 times";
  EXPECT_NEAR(times.scatter[0], 4.0 / 15, 1e-12) << "of 4, 5 and 6 2/3, as each round was stretched";
}

/// Bursts of 4 ms every 40 ms: a visit holds two or three pauses between its bursts.
TEST(Summarize, AVisitsPartOfABurstSaysNothing) {
  const std::vector<ShapeSample> shape_samples{computed(0.5, 12, 0.078, 0.006), computed(0.5, 20, 0.082, 0.010),
                                               computed(0.5, 16, 0.080, 0.008)};
  const auto times = summarize({}, shape_samples, throttling_of(shape_samples));
  EXPECT_DOUBLE_EQ(times.seconds[0].value, 0.5 * 0.24 / 0.024);
}

/// What took long ran seldom in its slice of time: runs count, not visits.
TEST(Summarize, ACrowdedRanksRunsCountAlike) {
  const std::vector<ShapeSample> shape_samples{computed(1, 30, 1, 1), computed(5, 6, 1, 1)};
  EXPECT_DOUBLE_EQ(summarize({}, shape_samples, throttling_of(shape_samples)).seconds[0].value, 60.0 / 36);
}

TEST(Summarize, ACrowdedRanksHalvesComeFromTheVisitsThatMeasuredThem) {
  std::vector<ShapeSample> shape_samples{took(2, 1, 0.5), took(2, 1, 0.5)};
  for (std::size_t v = 0; v < shape_samples.size(); ++v)
    for (auto* values : {&shape_samples[v].seconds, &shape_samples[v].quick, &shape_samples[v].runs})
      values->resize(flotilla::probe::measured_count, v == 0 ? 0 : 3);
  const auto throttling = throttling_of(shape_samples);
  EXPECT_EQ(summarize({}, shape_samples, throttling).seconds.back(), Seconds{6});
  EXPECT_EQ(summarize({}, {shape_samples[0]}, throttling).seconds.back(), Seconds{0}) << "never measured";
}

TEST(ThrottlingFactor, IsTheSumOverTheSum) {
  ThrottlingFactor throttling;
  EXPECT_EQ(throttling.all(), 1) << "of nothing";
  throttling.add(0, Seconds{6}, Seconds{1});
  throttling.add(0, Seconds{4}, Seconds{3});
  throttling.add(1, Seconds{5}, Seconds{1});
  EXPECT_DOUBLE_EQ(throttling.all(), 3);
  EXPECT_DOUBLE_EQ(throttling.of_round(0), 2.5) << "of all shapes";
  EXPECT_DOUBLE_EQ(throttling.of_round(1), 5);
}

/// Shorter than the quota's part of a period, a visit is not stretched at all; a step is.
TEST(ThrottlingFactor, IsNeverLessThanAQuotaMakesOfLongWork) {
  ThrottlingFactor throttling{2.5};
  EXPECT_EQ(throttling.all(), 2.5);
  throttling.add(0, Seconds{0.02}, Seconds{0.02});
  EXPECT_EQ(throttling.all(), 2.5);
  EXPECT_EQ(throttling.of_round(0), 2.5);
  throttling.add(1, Seconds{0.3}, Seconds{0.1});
  EXPECT_DOUBLE_EQ(throttling.all(), 0.32 / 0.12);
}

TEST(ThrottlingFactor, SaysWhatOthersTookWhereItIsFarMoreThanTheQuotasDoing) {
  ThrottlingFactor usual{2}, shared{2}, no_quota;
  EXPECT_EQ(usual.taken_by_others(), 0) << "of nothing";
  usual.add(0, Seconds{2.8}, Seconds{1});
  EXPECT_EQ(usual.taken_by_others(), 0);
  shared.add(0, Seconds{5}, Seconds{1});
  EXPECT_DOUBLE_EQ(shared.taken_by_others(), 0.6);
  no_quota.add(0, Seconds{5}, Seconds{1});
  EXPECT_EQ(no_quota.taken_by_others(), 0);
  const std::vector<ShapeSample> shape_samples{computed(1, 1, 5, 1), computed(1, 1, 5, 1)};
  EXPECT_DOUBLE_EQ(summarize({}, shape_samples, throttling_of(shape_samples, 2)).scatter[0], 0.6) << "though both visits agree";
}

/// What the quota cannot have done others did, as long as other rounds show less.
TEST(ThrottlingFactor, LeavesOutRoundsThatOthersDisturbed) {
  const std::vector<ShapeSample> shape_samples{computed(9, 2, 12, 1), computed(1, 5, 3, 1), computed(2, 5, 2, 1)};
  const auto throttling = throttling_of(shape_samples, 2);
  EXPECT_FALSE(throttling.counts(0));
  EXPECT_TRUE(throttling.counts(1));
  EXPECT_DOUBLE_EQ(throttling.all(), 2.5);
  EXPECT_DOUBLE_EQ(summarize({}, shape_samples, throttling).seconds[0].value, 2.5 * 1.5) << "nor do its runs count";
  EXPECT_TRUE(throttling_of(shape_samples).counts(0)) << "without a quota nobody knows whose doing it was";
}

/// Bursts of 4 ms, pauses of 36: a slice that begins in the middle of a burst and ends in the third pause.
TEST(ThrottlingFactor, APauseAtAVisitsEndCountsHalf) {
  ShapeSample v = computed(0.001, 10, 0.119, 0.011);
  v.wall_before = Seconds{0.081};
  v.busy_before = Seconds{0.009};
  ThrottlingFactor throttling;
  add(throttling, 0, v);
  EXPECT_DOUBLE_EQ(throttling.all(), 10);
  ThrottlingFactor of_one_pass;
  add(of_one_pass, 0, computed(0.001, 1, 0.3, 0.1));
  EXPECT_DOUBLE_EQ(of_one_pass.all(), 0.3 / 0.1);
}

TEST(LeastThrottling, IsThreadsOverQuota) {
  using flotilla::probe::least_throttling;
  EXPECT_DOUBLE_EQ(least_throttling(1, 0.4), 2.5);
  EXPECT_DOUBLE_EQ(least_throttling(2, 1.5), 2 / 1.5);
  EXPECT_EQ(least_throttling(1, 1.5), 1) << "does not bind";
  EXPECT_EQ(least_throttling(4, 0), 1) << "no quota";
}

TEST(Disturbance, IsTheShareOfTheTimeThatWasNotComputed) {
  EXPECT_DOUBLE_EQ(computed(1, 1, 4, 1).disturbance(), 0.75);
  EXPECT_EQ(computed(1, 1, 4, 5).disturbance(), 0) << "clocks differ";
  EXPECT_EQ(computed(1, 1, 0, 0).disturbance(), 0);
}

/// Halves are measured in some visits alone.
TEST(Summarize, TakesHalvesFromTheVisitsThatMeasuredThem) {
  const auto shape_sample_with = [](double half, double disturbance) {
    ShapeSample v = took(2, 1, disturbance);
    for (auto* values : {&v.seconds, &v.quick}) values->resize(flotilla::probe::measured_count, half);
    return v;
  };
  const auto times =
      summarize({}, {shape_sample_with(0, 0), shape_sample_with(5, 0.01), shape_sample_with(0, 0), shape_sample_with(9, 0.5)});
  EXPECT_EQ(times.seconds[0], Seconds{2});
  EXPECT_EQ(times.seconds.back(), Seconds{5}) << "not the disturbed one's";
  EXPECT_DOUBLE_EQ(times.scatter.back(), 0);
  const auto disturbed = summarize({}, {shape_sample_with(0, 0), shape_sample_with(9, 0.5)});
  EXPECT_EQ(disturbed.seconds.back(), Seconds{9});
  EXPECT_DOUBLE_EQ(disturbed.scatter.back(), 0.5);
  EXPECT_DOUBLE_EQ(disturbed.scatter[0], 0);
  EXPECT_EQ(summarize({}, {shape_sample_with(0, 0)}).seconds.back(), Seconds{0}) << "never measured";
}

TEST(Settled, CountsUndisturbedVisits) {
  const std::vector<ShapeSample> shape_samples{took(1, 1, 0), took(1, 1, 0.5), took(1, 1, 0.04)};
  EXPECT_TRUE(settled(shape_samples, 2, false));
  EXPECT_FALSE(settled(shape_samples, 3, false));
  EXPECT_TRUE(settled(shape_samples, 3, true));
}

TEST(RepeatsItself, WherePassesOfEnoughVisitsAgree) {
  const auto passes = [](std::vector<double> seconds) {
    std::vector<ShapeSample> all(seconds.size());
    for (std::size_t i = 0; i < seconds.size(); ++i) all[i].pass = Seconds{seconds[i]};
    return all;
  };
  using flotilla::probe::repeats_itself;
  EXPECT_TRUE(repeats_itself(passes({1, 1.005, 0.998}), 3));
  EXPECT_FALSE(repeats_itself(passes({1, 1.005}), 3)) << "too few";
  EXPECT_FALSE(repeats_itself(passes({1, 1.1, 0.95}), 3));
}

TEST(ExpectedTime, InProportionToOneAndByTheLineThroughMore) {
  using flotilla::probe::expected_time;
  EXPECT_DOUBLE_EQ(expected_time({{2, Seconds{3}}}, 8).value, 12);
  EXPECT_DOUBLE_EQ(expected_time({{1, Seconds{1.0}}, {2, Seconds{1.1}}}, 16).value, 2.5) << "most of it does not grow";
  EXPECT_DOUBLE_EQ(expected_time({{1, Seconds{1}}, {16, Seconds{4}}, {2, Seconds{9}}}, 11).value, 3) << "between the outermost";
  EXPECT_DOUBLE_EQ(expected_time({{2, Seconds{1}}, {1, Seconds{2}}}, 4).value, 1) << "more sequences take no less";
}

TEST(Sampling, MeasuresEveryOperationAndGivesTheMemoryBack) {
  const MeasuredShape shape{Precision::fp32, 2, 1, true};
  FewBlocks blocks{flotilla::model::built_in("gpt2-tiny"), 16, shape, 1, 2};
  for (bool fresh : {true, false}) {
    const auto result = shape_sample(blocks, shape, Seconds{0.01}, {.fresh = fresh, .halves = !fresh});
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
    EXPECT_EQ(result.once.value > 0, fresh);
    EXPECT_LE(result.once + result.wall, result.took);
    EXPECT_GT(result.pass.value, 0);
    EXPECT_LE(result.pass, result.wall);
    EXPECT_GE(result.disturbance(), 0);
    EXPECT_LT(result.disturbance(), 1);
  }
}

/// A thread beside this one on its processor takes about half of its time, in turns that are as long as many operations: by the clock they
/// would take longer than what was computed in all.
TEST(Sampling, ACrowdedRanksOperationsAreInProcessorTime) {
  const MeasuredShape shape{Precision::fp32, 1, 1, true};
  FewBlocks blocks{flotilla::model::built_in("gpt2-tiny"), 16, shape, 1, 2};
  (void)shape_sample(blocks, shape, Seconds{0.01}, {.fresh = true});
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
  const ShapeSample result = shape_sample(blocks, shape, Seconds{0.3}, {.crowded = true});
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
