#include <gtest/gtest.h>

#include <algorithm>

#include "candidate_plan.hpp"
#include "device_pool.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/search/binding.hpp"
#include "flotilla/search/planner.hpp"
#include "simulate/cluster_fixture.hpp"
#include "support/refusal.hpp"

namespace flotilla::find_plan_test {
namespace {

using search::PlanAnswer;
using search::PlanRequest;
using simulate::ProgramForecaster;

constexpr Bytes runtime_constant{16 << 20};

/// Of bound ranks, for a runtime that knows data x pipeline x tensor alone.
PlanRequest request(const std::string& model = "gpt2-mini", int batch = 16, int length = 64) {
  PlanRequest r;
  r.restrictions.uniform_degrees = true;
  r.model = model::built_in(model);
  r.length = length;
  r.global_batch = batch;
  return r;
}

PlanAnswer find(const PlanRequest& r, const cluster::Profile& profile) {
  return search::plan(r, ProgramForecaster{profile, {}, runtime_constant});
}

std::string refusal_of(const PlanRequest& r, const cluster::Profile& profile) {
  return tests::refusal([&] { find(r, profile); });
}

cluster::Profile measured(int hosts, int per_host, const std::string& model = "gpt2-mini", int length = 64) {
  auto profile = fixture::uniform_cluster(hosts, per_host);
  fixture::measure(profile, model::built_in(model), length, Precision::fp32, {1, 2, 4}, {1, 2, 4, 8, 16});
  return profile;
}

TEST(FindPlan, AnswerIsAValidPlanBoundToTheFirstRanks) {
  const auto profile = measured(2, 4);
  const PlanAnswer a = find(request(), profile);
  ASSERT_TRUE(a.best);
  EXPECT_TRUE(plan::validate(a.best->plan).empty());
  EXPECT_GT(a.bound, 0);
  EXPECT_LE(a.bound, a.best->value);
  EXPECT_GT(a.considered, 0);
  const auto forecast = ProgramForecaster{profile, {}, runtime_constant}.forecast(a.best->plan);
  EXPECT_EQ(a.best->iteration, forecast.iteration);
  EXPECT_EQ(a.best->peak_memory, forecast.peak_memory());
  EXPECT_EQ(a.best->value, forecast.iteration.value);
  for (const auto& stage : a.best->plan.stages)
    for (const auto& replica : stage.replicas)
      for (Rank rank : replica.devices) {
        EXPECT_EQ(profile.devices[rank.index()].type, replica.device_type);
        EXPECT_EQ(profile.devices[rank.index()].host, profile.devices[replica.devices.front().index()].host)
            << "tensor parallel across hosts";
      }
}

TEST(FindPlan, SameInputSamePlan) {
  const auto profile = measured(2, 4);
  const PlanAnswer a = find(request(), profile), b = find(request(), profile);
  ASSERT_TRUE(a.best && b.best);
  EXPECT_EQ(a.best->plan, b.best->plan);
  EXPECT_EQ(a.best->iteration, b.best->iteration);
  EXPECT_EQ(a.considered, b.considered);
}

TEST(FindPlan, MicrobatchesAreNoLargerThanMeasurementsTell) {
  const auto largest = [](int sequences) {
    auto profile = fixture::uniform_cluster(1, 1);
    fixture::measure(profile, model::built_in("gpt2-mini"), 64, Precision::fp32, {1}, {1, sequences});
    PlanRequest r = request("gpt2-mini", 256);
    r.pool = search::pool_of_devices(profile);
    return search::pool::DevicePool{r, profile}.largest_microbatch;
  };
  EXPECT_EQ(largest(2), 32);
  EXPECT_EQ(largest(16), search::pool::largest_microbatch);
}

TEST(FindPlan, SlowLinksLeaveRanksIdle) {
  auto profile = measured(8, 1, "gpt2-tiny", 16);
  profile.links[1].pieces[0] = {{0}, {1.0}, {1e6}};  // a second for every message
  const PlanAnswer a = find(request("gpt2-tiny", 8, 16), profile);
  ASSERT_TRUE(a.best);
  EXPECT_EQ(plan::rank_count(a.best->plan), 1);
}

TEST(FindPlan, FastLinksUseEveryRank) {
  auto profile = measured(1, 4);
  profile.links[0].pieces[0] = {{0}, {1e-9}, {1e13}};
  const PlanAnswer a = find(request(), profile);
  ASSERT_TRUE(a.best);
  EXPECT_EQ(plan::rank_count(a.best->plan), 4);
}

TEST(FindPlan, FixedChoicesAreKept) {
  const auto profile = measured(1, 8);
  PlanRequest r = request();
  r.constraints = {2, 2, 2, 2, plan::ScheduleKind::gpipe, plan::Recompute::full, {0, 2, 6}};
  r.constraints.shard_optimizer = false;
  const PlanAnswer a = find(r, profile);
  ASSERT_TRUE(a.best);
  EXPECT_EQ(search::describe(a.best->plan), "data 2 x pipeline 2 x tensor 2, microbatch 2, gpipe, full recomputation, layers 0-2-6");
  r.constraints = {};
  r.constraints.pipeline = 3;
  EXPECT_EQ(find(r, profile).best->plan.stages.size(), 3u);
  r.constraints = {};
  for (const int tensor : {3, 4}) {
    r.constraints.tensor = tensor;
    EXPECT_EQ(find(r, profile).best->plan.stages[0].replicas[0].tensor_parallel, tensor);
  }
  r.constraints = {};
  r.constraints.microbatch = 5;
  const auto plan = find(r, profile).best->plan;
  EXPECT_LE(plan.stages[0].replicas[0].quanta * plan.quantum, 5);
  r = request("gpt2-mini", 192);
  r.constraints.microbatch = 96, r.constraints.data = 1;
  const auto large = find(r, profile);
  ASSERT_TRUE(large.best) << large.no_plan_reason;
  EXPECT_EQ(large.best->plan.stages[0].replicas[0].quanta * large.best->plan.quantum, 96);
}

TEST(FindPlan, ConstraintsOnHowAPlanRunsAreKept) {
  const auto profile = measured(1, 4);
  PlanRequest r = request();
  r.constraints.chunks = 2;
  const auto interleaved = find(r, profile);
  ASSERT_TRUE(interleaved.best) << interleaved.no_plan_reason;
  EXPECT_EQ(interleaved.best->plan.chunks, 2);
  EXPECT_EQ(interleaved.best->plan.schedule, plan::ScheduleKind::interleaved);
  r.constraints.pipeline = 2, r.constraints.cuts = {0, 1, 3, 4, 6}, r.constraints.shard_optimizer = false;
  const auto cut = find(r, profile);
  ASSERT_TRUE(cut.best) << cut.no_plan_reason;
  EXPECT_NE(search::describe(cut.best->plan).find("pipeline 2 x"), std::string::npos) << search::describe(cut.best->plan);
  EXPECT_NE(search::describe(cut.best->plan).find("2 stages a device, layers 0-1-3-4-6"), std::string::npos)
      << search::describe(cut.best->plan);
  r = request();
  r.constraints.sequence_parallel = true, r.constraints.tensor = 2;
  EXPECT_TRUE(find(r, profile).best->plan.sequence_parallel);
  r = request();
  r.constraints.shard_optimizer = true, r.constraints.data = 2;
  EXPECT_TRUE(find(r, profile).best->plan.shard_optimizer);
}

/// Two replicas that need more than they may, but less where they share the moments out.
TEST(FindPlan, AnOptimizerThatIsSharedOutIsNamedWhereItWouldFit) {
  const auto profile = measured(1, 2);
  PlanRequest r = request();
  r.constraints.data = 2, r.constraints.pipeline = 1, r.constraints.tensor = 1, r.constraints.microbatch = 1,
  r.constraints.recompute = plan::Recompute::full;
  r.constraints.schedule = plan::ScheduleKind::one_f_one_b;
  r.constraints.shard_optimizer = true;
  r.memory_limit = find(r, profile).best->peak_memory;
  r.constraints.shard_optimizer = false;
  const PlanAnswer a = find(r, profile);
  ASSERT_TRUE(a.nearest_miss) << a.no_plan_reason;
  EXPECT_NE(a.nearest_miss->change.find("optimizer sharded over replicas"), std::string::npos) << a.nearest_miss->change;
}

TEST(FindPlan, TensorParallelismStaysInsideAHost) {
  const auto profile = measured(4, 1);
  PlanRequest r = request();
  r.constraints.tensor = 2;
  const PlanAnswer a = find(r, profile);
  EXPECT_FALSE(a.best);
  EXPECT_FALSE(a.nearest_miss);
  EXPECT_NE(a.no_plan_reason.find("do not fit inside one host: the largest has 1"), std::string::npos) << a.no_plan_reason;
}

TEST(FindPlan, TooFewRanksIsAValueWithAReason) {
  PlanRequest r = request();
  r.constraints.data = 4, r.constraints.pipeline = 2;
  const PlanAnswer a = find(r, measured(1, 4));
  EXPECT_FALSE(a.best);
  EXPECT_NE(a.no_plan_reason.find("take 8 devices, and there are 4"), std::string::npos) << a.no_plan_reason;
}

TEST(FindPlan, MemoryLimitIsKeptAndAnsweredByAnotherPlan) {
  const auto profile = measured(1, 4);
  PlanRequest r = request();
  const PlanAnswer free = find(r, profile);
  Bytes limit = free.best->peak_memory - Bytes{1};
  for (int round = 0; round < 3; ++round) {
    r.memory_limit = limit;
    const PlanAnswer tight = find(r, profile);
    ASSERT_TRUE(tight.best);
    EXPECT_LE(tight.best->peak_memory, limit);
    EXPECT_GE(tight.best->iteration, free.best->iteration);
    limit = tight.best->peak_memory - Bytes{1};
  }
}

TEST(FindPlan, NothingFitsNamesTheNearestMissAndWhatWouldMendIt) {
  const auto profile = measured(1, 2);
  PlanRequest r = request();
  r.constraints.microbatch = 16;
  r.memory_limit = Bytes{24 << 20};
  const PlanAnswer a = find(r, profile);
  EXPECT_FALSE(a.best);
  ASSERT_TRUE(a.nearest_miss);
  EXPECT_GT(a.nearest_miss->needed, a.nearest_miss->limit);
  EXPECT_EQ(a.nearest_miss->limit, *r.memory_limit);
  EXPECT_EQ(a.nearest_miss->memory.peak(), a.nearest_miss->needed);
  EXPECT_NE(a.no_plan_reason.find("no plan fits"), std::string::npos);
  // What it says would fit does.
  r.memory_limit = a.nearest_miss->needed;
  const PlanAnswer mended = find(r, profile);
  ASSERT_TRUE(mended.best);
  EXPECT_LE(mended.best->peak_memory, a.nearest_miss->needed);
}

TEST(FindPlan, ASmallerMicrobatchIsNamedWhereItWouldFit) {
  const auto profile = measured(1, 1);
  PlanRequest r = request();
  r.constraints.microbatch = 16;
  r.constraints.recompute = plan::Recompute::full;
  const Bytes large = find(r, profile).best->peak_memory;
  r.memory_limit = large - Bytes{1 << 20};
  const PlanAnswer a = find(r, profile);
  ASSERT_TRUE(a.nearest_miss);
  EXPECT_NE(a.nearest_miss->change.find("instead of 16"), std::string::npos) << a.nearest_miss->change;
}

TEST(FindPlan, AlternativesAreOtherShapesAndSayWhyTheyLost) {
  const PlanAnswer a = find(request(), measured(1, 4));
  ASSERT_TRUE(a.best);
  ASSERT_EQ(a.alternatives.size(), 4u);
  Seconds before = a.best->iteration;
  for (const auto& other : a.alternatives) {
    EXPECT_NE(search::describe(other.plan), search::describe(a.best->plan));
    EXPECT_GE(other.iteration, before);
    before = other.iteration;
    EXPECT_TRUE(other.reason.find("slower") != std::string::npos || other.reason.find("equally fast") != std::string::npos) << other.reason;
  }
}

TEST(FindPlan, StopsWhenAskedAndSaysSo) {
  const auto profile = measured(1, 4);
  PlanRequest r = request();
  int calls = 0;
  r.should_stop = [&] { return ++calls > 12; };
  const PlanAnswer cut_off = find(r, profile);
  EXPECT_FALSE(cut_off.finished);
  r.should_stop = [] { return true; };
  const PlanAnswer at_once = find(r, profile);
  EXPECT_FALSE(at_once.finished);
  EXPECT_LE(at_once.considered, cut_off.considered);
}

TEST(FindPlan, SlowAndFastDevicesShareTheWorkBySpeed) {
  auto profile = fixture::uniform_cluster(2, 1);
  profile.device_types.push_back(fixture::device_type("fast", 150, 30));
  profile.devices[1].type = "fast";
  profile.links[1].pieces[0] = {{0}, {1e-7}, {1e12}};
  const PlanAnswer a = find(request("gpt2-mini", 32), profile);
  ASSERT_TRUE(a.best);
  PlanRequest alone = request("gpt2-mini", 32);
  alone.constraints.data = 1, alone.constraints.pipeline = 1;
  EXPECT_EQ(plan::rank_count(a.best->plan), 2);
  EXPECT_LT(a.best->iteration.value, 0.4 * find(alone, profile).best->iteration.value);  // rank 0, the slow one, alone; ideal: 0.25
}

TEST(FindPlan, ContradictionsAreNamed) {
  const auto profile = measured(1, 2);
  PlanRequest r = request();
  r.constraints.cuts = {0, 3, 6}, r.constraints.pipeline = 3;
  EXPECT_NE(refusal_of(r, profile).find("2 stages"), std::string::npos);
  r.constraints = {};
  r.constraints.cuts = {0, 4, 3, 6};
  EXPECT_NE(refusal_of(r, profile).find("rise from 0 to 6"), std::string::npos);
  r.constraints = {};
  r.constraints.tensor = 64;
  EXPECT_NE(refusal_of(r, profile).find("heads"), std::string::npos);
  r.constraints = {};
  r.constraints.microbatch = 0;
  EXPECT_NE(refusal_of(r, profile).find("microbatch is 0"), std::string::npos);
  r.constraints = {};
  r.constraints.chunks = 2, r.constraints.schedule = plan::ScheduleKind::gpipe;
  EXPECT_NE(refusal_of(r, profile).find("the schedule is gpipe"), std::string::npos);
  r.constraints.schedule.reset(), r.constraints.cuts = {0, 1, 2, 6};
  EXPECT_NE(refusal_of(r, profile).find("3 stages, which are not 2 for each device"), std::string::npos) << refusal_of(r, profile);
  r.constraints = {};
  r.constraints.chunks = 0;
  EXPECT_NE(refusal_of(r, profile).find("holds 0 stages"), std::string::npos);
  r = request();
  r.length = 1000000;
  EXPECT_NE(refusal_of(r, profile).find("sequence length"), std::string::npos);
  EXPECT_NE(refusal_of(request(), {}).find("no devices"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::find_plan_test
