// Bounds are never above what the list scheduler takes, and equal to it where that is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "pipelines.hpp"

namespace flotilla::schedule::bound_test {
namespace {

using plan::ScheduleKind;
using namespace testing;

/// Whole numbers, by virtual stage: sums in the bound are exact.
struct Work3 {
  int forward = 1, backward = 1, weights = 0;  ///< weights 0: the backward pass is whole
  int there = 0, back = 0;
};

class StageTiming : public Timing {
 public:
  StageTiming(std::vector<Work3> full, std::vector<Work3> last, int microbatches, int devices)
      : full_{std::move(full)}, last_{std::move(last)}, microbatches_{microbatches}, devices_{devices} {}
  Ticks pass(const ScheduledDevice&, int stage, int, const Pass& pass) const override {
    const Work3& work = of(stage, pass);
    return pass.work == Work::forward ? work.forward : pass.work == Work::backward ? work.backward : work.weights;
  }
  Ticks message(int stage, int, const Pass& pass) const override {
    const int v = virtual_stage(stage, pass);
    if (pass.work == Work::forward) return of(stage, pass).there;
    if (v == 0) return 0;
    return (pass.microbatch + 1 == microbatches_ ? last_ : full_)[static_cast<std::size_t>(v - 1)].back;
  }

 private:
  int virtual_stage(int stage, const Pass& pass) const { return pass.chunk * devices_ + stage; }
  const Work3& of(int stage, const Pass& pass) const {
    return (pass.microbatch + 1 == microbatches_ ? last_ : full_)[static_cast<std::size_t>(virtual_stage(stage, pass))];
  }
  std::vector<Work3> full_, last_;
  int microbatches_, devices_;
};

struct Case {
  const Schedule* schedule = nullptr;
  int devices = 1, chunks = 1, microbatches = 1;
  std::vector<Work3> full, last;  ///< by virtual stage
};

Seconds seconds(int ticks) { return {static_cast<double>(ticks)}; }

ColumnTimes times_of(const Case& c) {
  ColumnTimes column;
  column.microbatches = c.microbatches;
  column.chunks = c.chunks;
  for (std::size_t v = 0; v < c.full.size(); ++v) {
    const auto passes = [](const Work3& w) { return PassTimes{seconds(w.forward), seconds(w.backward), {}, seconds(w.weights)}; };
    StageTimes stage;
    stage.full = passes(c.full[v]), stage.last = passes(c.last[v]);
    if (v + 1 < c.full.size()) {
      stage.there_full = seconds(c.full[v].there), stage.there_last = seconds(c.last[v].there);
      stage.back_full = seconds(c.full[v].back), stage.back_last = seconds(c.last[v].back);
    }
    column.stages.push_back(stage);
  }
  return column;
}

struct Ends {
  double last_backward = 0, last = 0;
};
Ends run(const Case& c) {
  const Column column{c.devices, c.microbatches, c.chunks};
  const StageTiming timing{c.full, c.last, c.microbatches, c.devices};
  const auto listed = timed(column.shape(), published(*c.schedule, c.devices, c.microbatches, c.chunks), timing);
  if (!listed) throw std::runtime_error{"a published order does not end"};
  Ends ends;
  for (const auto& stage : listed->devices)
    for (const TimedPass& pass : stage.front().passes) {
      ends.last = std::max(ends.last, static_cast<double>(pass.end));
      if (pass.work == Work::backward) ends.last_backward = std::max(ends.last_backward, static_cast<double>(pass.end));
    }
  return ends;
}

Case random_case(std::mt19937& random) {
  constexpr std::array kinds{ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble, ScheduleKind::interleaved};
  Case c;
  c.schedule = &schedule_of(kinds[static_cast<std::size_t>(pick(random, 0, 3))]);
  c.devices = pick(random, c.schedule->interleaves() ? 2 : 1, 6);
  c.chunks = c.schedule->interleaves() ? pick(random, 2, 3) : 1;
  c.microbatches = c.schedule->interleaves() ? c.devices * pick(random, 1, 4) : pick(random, 1, 16);
  const int longest = pick(random, 0, 2) * 10;  // messages: none, as long as passes, longer
  for (int v = 0; v < c.devices * c.chunks; ++v) {
    const bool splits = c.schedule->splits(v);
    const Work3 full{pick(random, 1, 20), pick(random, 1, 40), splits ? pick(random, 1, 20) : 0, pick(random, 0, longest),
                     pick(random, 0, longest)};
    c.full.push_back(full);
    const auto part = [&](int whole) { return whole == 0 ? 0 : pick(random, 1, whole); };
    c.last.push_back({part(full.forward), part(full.backward), part(full.weights), part(full.there), part(full.back)});
  }
  return c;
}

TEST(Bound, IsNeverAboveTheListSchedulersTime) {
  double worst = 1, sum = 0;
  constexpr int cases = 20'000;
  for (int seed = 0; seed < cases; ++seed) {
    std::mt19937 random{static_cast<unsigned>(seed)};
    const Case c = random_case(random);
    const auto [last_backward, last_sum] = bound(*c.schedule, times_of(c));
    const Ends ends = run(c);
    ASSERT_LE(last_backward.value, ends.last_backward) << "seed " << seed;
    ASSERT_LE(last_sum.value, ends.last) << "seed " << seed;
    const double ratio = std::max(last_backward, last_sum).value / ends.last;
    worst = std::min(worst, ratio), sum += ratio;
  }
  // Not a bound that is true because it says nothing.
  EXPECT_GT(sum / cases, 0.8) << "worst " << worst;
  RecordProperty("mean", std::to_string(sum / cases));
}

Case equal_stages(ScheduleKind kind, int devices, int microbatches, Work3 work) {
  Case c{&schedule_of(kind), devices, 1, microbatches, {}, {}};
  for (int s = 0; s < devices; ++s) {
    Work3 here = work;
    if (!c.schedule->splits(s)) here.backward += here.weights, here.weights = 0;
    c.full.push_back(here), c.last.push_back(here);
  }
  return c;
}

TEST(Bound, IsExactForEqualStages) {
  // (n + P - 1)(F + B): GPipe (Huang et al. 2019, section 2.3), 1F1B (Narayanan et al. 2021, section 2.2).
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (int devices = 1; devices <= 6; ++devices)
      for (int n = 1; n <= 12; ++n) {
        const Case c = equal_stages(kind, devices, n, {3, 7});
        const double expected = (n + devices - 1) * (3 + 7);
        EXPECT_EQ(run(c).last_backward, expected) << devices << " devices, " << n << " microbatches";
        EXPECT_EQ(bound(*c.schedule, times_of(c)).last_backward.value, expected) << devices << " devices, " << n << " microbatches";
      }
}

TEST(ZeroBubble, TakesWhatThePaperSays) {
  // n (F + B + W) + (P - 1)(F + B - W) where the parts are equal and there are microbatches enough.
  for (int devices = 2; devices <= 6; ++devices)
    for (int n = devices; n <= 14; ++n) {
      const Case c = equal_stages(ScheduleKind::zero_bubble, devices, n, {5, 5, 5});
      const double expected = n * 15 + (devices - 1) * 5;
      EXPECT_EQ(run(c).last, expected) << devices << " devices, " << n << " microbatches";
      EXPECT_LE(bound(*c.schedule, times_of(c)).last_sum.value, expected);
    }
}

TEST(Bound, KnowsOneSlowStageExactly) {
  // All else is nothing beside the slow stage: its own work is the time, whichever stage it is.
  for (int slow = 0; slow < 4; ++slow) {
    Case c = equal_stages(ScheduleKind::one_f_one_b, 4, 8, {1, 1});
    c.full[static_cast<std::size_t>(slow)] = c.last[static_cast<std::size_t>(slow)] = {100, 200};
    const double expected = 8 * 300 + 2 * slow;
    EXPECT_EQ(bound(*c.schedule, times_of(c)).last_backward.value, expected);
    EXPECT_EQ(run(c).last_backward, expected);
  }
}

TEST(Bound, CountsRoundTripsWhereMessagesAreLong) {
  // Two stages, two microbatches in flight: one way and back is made n / 2 times where messages take longer than passes.
  Case c = equal_stages(ScheduleKind::one_f_one_b, 2, 8, {1, 1});
  for (auto* list : {&c.full, &c.last}) (*list)[0].there = (*list)[0].back = 100;
  EXPECT_GE(bound(*c.schedule, times_of(c)).last_backward.value, 4 * 204);
  EXPECT_LE(bound(*c.schedule, times_of(c)).last_backward.value, run(c).last_backward);
}

TEST(Split, NeverTakesLongerThanTheWholePass) {
  const PassTimes whole{{3}, {10}, {1}, {}};
  EXPECT_EQ(split(whole, {6}, {4}).backward.value, 6);
  EXPECT_EQ(split(whole, {6}, {9}).weights.value, 4);
  EXPECT_EQ(split(whole, {12}, {9}).backward.value, 10);
  EXPECT_EQ(split(whole, {12}, {9}).weights.value, 0);
}

}  // namespace
}  // namespace flotilla::schedule::bound_test
