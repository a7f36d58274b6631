// The schedule of a whole plan: unequal stages and replicas, with devices that hold one stage and several.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "flotilla/schedule/pipeline_schedule.hpp"
#include "pipelines.hpp"
#include "plan/random_plan.hpp"

namespace flotilla::schedule::plans_test {
namespace {

using namespace testing;

class OfShares : public Timing {
  Ticks pass(const ScheduledDevice& device, int, int, const Pass& pass) const override {
    return device.microbatches[static_cast<std::size_t>(pass.microbatch)].count * (pass.work == Work::backward ? 2 : 1);
  }
};

/// Each pass once, a microbatch's in their order, and no more held than is said.
void expect_sound(const PassOrder& order, int microbatches, const std::string& what) {
  std::map<std::pair<Work, int>, int> made;
  int in_flight = 0, waiting = 0;
  for (const Pass& pass : passes_of(order)) {
    EXPECT_EQ((made[{pass.work, pass.microbatch}]++), 0) << what;
    if (pass.work == Work::forward) ++in_flight;
    if (pass.work == Work::backward) {
      EXPECT_EQ((made[{Work::forward, pass.microbatch}]), 1) << what;
      --in_flight, ++waiting;
    }
    if (pass.work == Work::weights) {
      EXPECT_EQ((made[{Work::backward, pass.microbatch}]), 1) << what;
      --waiting;
    }
    EXPECT_LE(in_flight, order.in_flight) << what;
    if (order.splits() && pass.work != Work::backward) {
      EXPECT_LE(waiting, order.deferred) << what;
    }
  }
  EXPECT_EQ(made.size(), static_cast<std::size_t>(microbatches) * (order.splits() ? 3 : 2)) << what;
  EXPECT_EQ(in_flight, 0) << what;
}

TEST(PipelineSchedule, OrdersAnyPlanSoundly) {
  int unlike = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    std::mt19937 random{seed};
    const plan::Plan plan = plan::testing::random_plan(random);
    const PipelineSchedule schedule{plan, plan.global_batch, true};
    std::vector<std::vector<std::vector<Pass>>> passes;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      auto& of_stage = passes.emplace_back();
      for (std::size_t r = 0; r < plan.stages[s].replicas.size(); ++r) {
        const PassOrder order = schedule.order(static_cast<int>(s), static_cast<int>(r));
        expect_sound(order, static_cast<int>(schedule.batch_partitions()[s][r].size()), "seed " + std::to_string(seed));
        of_stage.push_back(schedule::passes_of(order));
      }
    }
    unlike += std::ranges::all_of(schedule.boundaries(), &Boundary::alike) ? 0 : 1;
    const PipelineShape shape{schedule.batch_partitions(), schedule.boundaries()};
    const auto listed = timed(shape, passes, OfShares{});
    ASSERT_TRUE(listed.has_value()) << "seed " << seed << " does not end";
    for (const auto& stage : schedule.batch_partitions())
      for (const auto& microbatches : stage) {
        Ticks own = 0;  // one for each sequence's forward pass, two for its backward pass
        for (const auto& microbatch : microbatches) own += 3 * microbatch.count;
        EXPECT_LE(own, listed->end) << "seed " << seed;
      }
  }
  EXPECT_GT(unlike, 200);
}

TEST(PipelineSchedule, SameInputSameOrders) {
  std::mt19937 random{7};
  for (int i = 0; i < 20; ++i) {
    const plan::Plan plan = plan::testing::random_plan(random);
    const PipelineSchedule one{plan, plan.global_batch, true}, other{plan, plan.global_batch, true};
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      for (std::size_t r = 0; r < plan.stages[s].replicas.size(); ++r)
        EXPECT_EQ(one.order(static_cast<int>(s), static_cast<int>(r)), other.order(static_cast<int>(s), static_cast<int>(r)));
  }
}

plan::Plan interleaved_plan(int devices, int chunks, int data, int batch, int microbatch) {
  auto plan = plan::even_plan(model::built_in("gpt2-mini"), 8, batch, Precision::fp32, data, devices, 1, microbatch);
  const auto own = plan.stages;
  plan.stages.clear();
  const int stages = devices * chunks, layers = plan.model.layers();
  for (int s = 0; s < stages; ++s) {
    plan::Stage stage = own[static_cast<std::size_t>(s % devices)];
    stage.first_layer = layers * s / stages, stage.last_layer = layers * (s + 1) / stages;
    plan.stages.push_back(stage);
  }
  plan.chunks = chunks;
  plan.schedule = plan::ScheduleKind::interleaved;
  return plan;
}

TEST(PipelineSchedule, DevicesWithSeveralStagesMakeEveryPassOnceAndReceiveInOrder) {
  for (const int batch : {4, 5, 8, 9}) {
    const auto plan = interleaved_plan(2, 2, 1, batch, 1);
    const PipelineSchedule schedule{plan, batch, true};
    for (int p = 0; p < 2; ++p) {
      const DeviceOrder& order = schedule.device_order(p, 0);
      EXPECT_EQ(order.passes.size(), static_cast<std::size_t>(2 * 2 * batch));
      ASSERT_EQ(order.copies.size(), 2U);
      for (std::size_t i = 1; i < order.passes.size(); ++i) EXPECT_LE(order.passes[i - 1].end, order.passes[i].start);
      for (std::size_t i = 1; i < order.arrivals.size(); ++i) {
        EXPECT_LE(order.arrivals[i - 1].sent, order.arrivals[i].sent);
        EXPECT_LE(order.arrivals[i - 1].due, order.arrivals[i].due);
      }
      for (const Arrival& arrival : order.arrivals) EXPECT_LE(arrival.sent, arrival.due);
    }
  }
}

TEST(PipelineSchedule, ReplicasThatAreDealtAlikeShareTheirOrder) {
  const auto plan = interleaved_plan(2, 2, 2, 8, 1);
  const PipelineSchedule schedule{plan, 8, true};
  EXPECT_EQ(&schedule.device_order(0, 0), &schedule.device_order(0, 1));
  EXPECT_NE(&schedule.device_order(0, 0), &schedule.device_order(1, 0));
}

TEST(PipelineSchedule, EvaluationGoesForwardOnly) {
  std::mt19937 random{3};
  const plan::Plan plan = plan::testing::random_plan(random);
  const PipelineSchedule schedule{plan, plan.global_batch, false};
  for (const Pass& pass : schedule::passes_of(schedule.order(0, 0))) EXPECT_EQ(pass.work, Work::forward);
}

TEST(ScheduleOf, InterleavedWithOneStageADeviceIsOneForwardOneBackward) {
  plan::Plan plan;
  plan.schedule = plan::ScheduleKind::interleaved;
  EXPECT_EQ(&schedule_of(plan), &schedule_of(plan::ScheduleKind::one_f_one_b));
  plan.chunks = 2;
  EXPECT_TRUE(schedule_of(plan).interleaves());
}

}  // namespace
}  // namespace flotilla::schedule::plans_test
