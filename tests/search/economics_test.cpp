// What surrounds an answer: idle devices, one more node, time against cost, a whole run. On made-up pools.
#include "flotilla/search/economics.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "pool_instances.hpp"
#include "support/refusal.hpp"

namespace flotilla::fixture::economics_test {
namespace {

using search::Goal;

/// Two types in one zone, and a model that one device holds.
Instance usual(double slow_gigaflops = 100) {
  Instance i;
  i.request.model = model::built_in("gpt2-tiny");
  i.request.length = 64;
  i.request.global_batch = 8;
  for (const char* name : {"fast", "slow"}) {
    auto type = made_up_type(name, name[0] == 'f' ? 400 : slow_gigaflops);
    type.usd_per_hour = name[0] == 'f' ? 4 : 0.5, type.power_watts = 300;
    i.library.device_types.push_back(std::move(type));
    i.request.pool.push_back({name, "", 4, 2});
  }
  i.library.links = made_up_links();
  return i;
}

simulate::ProgramForecaster forecaster_of(const Instance& i) { return {i.library, i.runtime, Bytes{}}; }

std::int64_t devices_of(const plan::Plan& plan, const std::string& type) {
  std::int64_t devices = 0;
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const auto& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      if (replica.device_type == type) devices += replica.tensor_parallel;
  return devices;
}

TEST(Economics, APlanHasTheDevicesThatAreAskedFor) {
  for (const double gigaflops : {100.0, 1.0}) {
    Instance i = usual(gigaflops);
    i.request.constraints.at_least = {{"slow", "", 1}};
    const auto answer = search::plan(i.request, forecaster_of(i));
    ASSERT_TRUE(answer.best) << answer.no_plan_reason;
    EXPECT_GE(devices_of(answer.best->plan, "slow"), 1);
    EXPECT_TRUE(search::keeps(answer.best->plan, i.request.constraints));
    for (const auto& other : answer.alternatives) EXPECT_GE(devices_of(other.plan, "slow"), 1);
  }
  Instance i = usual();
  i.request.constraints.at_least = {{"slow", "", 5}};
  EXPECT_FALSE(search::plan(i.request, forecaster_of(i)).best);
}

TEST(Economics, BoundRanksAreNotAskedForByType) {
  Instance i = usual();
  i.request.pool.clear();
  i.request.constraints.at_least = {{"slow", "", 1}};
  i.library.devices = {{Rank{0}, "fast", "h", ""}};
  EXPECT_NE(tests::refusal(ErrorKind::unavailable, [&] { search::plan(i.request, forecaster_of(i)); }).find("of a pool"),
            std::string::npos);
}

std::vector<search::IdleDevices> idle_of(const Instance& i) {
  const auto forecaster = forecaster_of(i);
  const auto answer = search::plan(i.request, forecaster);
  EXPECT_TRUE(answer.best) << answer.no_plan_reason;
  return search::why_idle(i.request, forecaster, *answer.best, 16);
}

search::IdleDevices slow_ones(const std::vector<search::IdleDevices>& idle) {
  const auto found = std::ranges::find(idle, "slow", &search::IdleDevices::device_type);
  EXPECT_NE(found, idle.end());
  return found == idle.end() ? search::IdleDevices{} : *found;
}

TEST(Economics, SlowDevicesAreIdleBecauseAPlanWithThemIsSlower) {
  const auto idle = slow_ones(idle_of(usual(0.5)));
  EXPECT_EQ(idle.devices, 4);
  EXPECT_NE(idle.reason.find(") slower: "), std::string::npos) << idle.reason;
  ASSERT_TRUE(idle.with);
  EXPECT_GE(devices_of(idle.with->plan, "slow"), 1);
}

TEST(Economics, SmallDevicesAreIdleForLackOfMemory) {
  Instance i = usual();
  i.library.device_types[1].memory = Bytes{1 << 10};
  const auto idle = slow_ones(idle_of(i));
  EXPECT_FALSE(idle.with);
  EXPECT_NE(idle.reason.find("too little memory: slow would need "), std::string::npos) << idle.reason;
}

TEST(Economics, DevicesWithoutBf16AreIdleForThatAndFp16IsCompared) {
  Instance i = usual();
  for (auto& type : i.library.device_types) type.peak_fp16 = type.peak_fp32;
  i.library.device_types[0].peak_bf16 = i.library.device_types[0].peak_fp32;
  i.library.device_types[1].peak_bf16 = {};
  i.request.precision = Precision::bf16;
  const auto idle = slow_ones(idle_of(i));
  EXPECT_EQ(idle.devices, 4);
  EXPECT_EQ(idle.reason.find("slow has no bf16: in fp16 the pool is "), 0u) << idle.reason;
}

TEST(Economics, ALimitIsNamedThatForbidsDevices) {
  Instance i = usual();
  i.request.pool = {{"fast", "", 4, 2}};
  i.request.objective.limits.usd_per_hour = 8.5;
  const auto idle = idle_of(i);
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0].devices, 2);
  EXPECT_FALSE(idle[0].with);
  EXPECT_NE(idle[0].reason.find("USD an hour where 8.5 are allowed"), std::string::npos) << idle[0].reason;
}

TEST(Economics, WhereAllWorkNothingIsIdle) {
  Instance i = usual();
  i.request.pool = {{"fast", "", 1, 2}};
  EXPECT_TRUE(idle_of(i).empty());
}

TEST(Economics, OneMoreNodeIsNeverWorse) {
  const Instance i = usual();
  const auto forecaster = forecaster_of(i);
  const auto answer = search::plan(i.request, forecaster);
  ASSERT_TRUE(answer.best);
  const auto larger = search::with_one_more_node(i.request, forecaster, *answer.best, 16);
  ASSERT_EQ(larger.size(), 2u);
  for (const auto& one : larger) {
    EXPECT_EQ(one.added.count, 2);
    EXPECT_LE(one.best.value, answer.best->value);
  }
  EXPECT_EQ(larger[0].added.device_type, "fast");
  EXPECT_EQ(search::with_one_more_node(i.request, forecaster, *answer.best, 1).size(), 1u);
}

TEST(Economics, NoPointOfTheFrontIsBothSlowerAndDearer) {
  const Instance i = usual(150);
  const auto forecaster = forecaster_of(i);
  const auto answer = search::plan(i.request, forecaster);
  const auto front = search::pareto_front(i.request, forecaster, answer, 8);
  ASSERT_GE(front.size(), 2u);
  EXPECT_LE(front.size(), 8u);
  EXPECT_LE(front.front().iteration, answer.best->iteration);
  for (std::size_t p = 1; p < front.size(); ++p) {
    EXPECT_GT(front[p].iteration, front[p - 1].iteration);
    EXPECT_LT(*front[p].usd, *front[p - 1].usd);
  }
  Instance cheap = i;
  cheap.request.objective.goal = Goal::cost;
  const auto cheapest = search::plan(cheap.request, forecaster);
  EXPECT_LE(*front.back().usd, *cheapest.best->usd * (1 + 1e-3));
}

TEST(Economics, TheFrontKeepsLimitsAndNeedsPrices) {
  Instance i = usual();
  i.request.objective.limits.devices = 2;
  const auto forecaster = forecaster_of(i);
  for (const auto& point : search::pareto_front(i.request, forecaster, search::plan(i.request, forecaster), 8)) EXPECT_LE(point.devices, 2);
  i.library.device_types[0].usd_per_hour = 0;
  EXPECT_NE(tests::refusal([&] { search::pareto_front(i.request, forecaster_of(i), {}, 8); }).find("the price of fast"), std::string::npos);
}

TEST(Economics, AZonesPriceDecidesWhereToPlan) {
  Instance i = usual();
  i.request.pool = {{"fast", "dear", 2, 2}, {"fast", "fair", 2, 2}};
  i.library.zone_prices = {{"fast", "fair", 1, 0}};
  i.request.objective = {Goal::cost, {}};
  i.request.objective.limits.devices = 2;
  const auto answer = search::plan(i.request, forecaster_of(i));
  ASSERT_TRUE(answer.best);
  for (const auto& stage : answer.best->plan.stages)
    for (const auto& replica : stage.replicas) EXPECT_EQ(replica.zone, "fair");
  EXPECT_NEAR(*answer.best->usd, answer.best->devices * 1.0 / 3600 * answer.best->iteration.value, 1e-12);
  i.request.objective = {};
  i.request.objective.limits.usd_per_hour = 2;
  const auto limited = search::plan(i.request, forecaster_of(i));
  ASSERT_TRUE(limited.best) << limited.no_plan_reason;
  EXPECT_EQ(limited.best->devices, 2);
}

TEST(Economics, TotalsAreOfAllIterations) {
  simulate::Report one;
  one.iteration = {2}, one.relative_error = 0.1, one.devices = 8, one.global_batch = 4, one.length = 100;
  one.expense.device_usd = 0.5, one.expense.egress_usd = 0.25;
  const auto run = search::totals_of(one, 1800);
  EXPECT_EQ(run.tokens, 720'000);
  EXPECT_DOUBLE_EQ(run.time.value, 3600);
  EXPECT_DOUBLE_EQ(run.low.value, 3600 / 1.1);
  EXPECT_DOUBLE_EQ(run.high.value, 3960);
  EXPECT_DOUBLE_EQ(run.device_hours, 8);
  EXPECT_DOUBLE_EQ(run.usd.value(), 1350);
  EXPECT_FALSE(run.billing_units || run.energy_joules);
}

}  // namespace
}  // namespace flotilla::fixture::economics_test
