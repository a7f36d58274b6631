// The planner by our own forecast on small made-up pools; pool_property_test looks at more of them.
#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "pool_checks.hpp"
#include "support/refusal.hpp"

namespace flotilla::fixture::pool_planner_test {
namespace {

using search::PlanRequest;

Range small_models() {
  Range range;
  range.models = {"gpt2-tiny", "gpt2-mini", "opt-tiny", "opt-post-tiny"};
  range.devices = 24;
  return range;
}

/// What plain enumeration is done with soon.
Range few_devices() {
  Range range = small_models();
  range.types = 3, range.zones = 2, range.devices_of_a_place = 2, range.devices = 3, range.node_sizes = {1, 2, 3}, range.batch = 8;
  range.blocks = 2, range.least_memory = 0.15;
  return range;
}

TEST(PoolPlanner, AnswersHoldTheirInvariants) { expect_sense({0, 25}, small_models()); }
TEST(PoolPlanner, NoPlanIsBelowTheFloor) { expect_floor({0, 12}, small_models(), 12); }
TEST(PoolPlanner, EstimatesAreClose) { expect_close_estimates({0, 25}, small_models(), 15, 0.1); }
TEST(PoolPlanner, IsDeterministic) { expect_deterministic({100, 105}, small_models()); }
TEST(PoolPlanner, IsAsGoodAsEnumeration) { expect_as_good_as_enumeration({0, 30}, few_devices(), 0.03, 0.95); }

/// Two types in one zone, and a model that one device holds.
Instance usual() {
  Instance i;
  i.request.model = model::built_in("gpt2-tiny");
  i.request.length = 64;
  i.request.global_batch = 8;
  for (const char* name : {"fast", "slow"}) {
    auto type = made_up_type(name, name[0] == 'f' ? 400 : 100);
    type.usd_per_hour = 2, type.billing_weight = 1, type.power_watts = 300;
    i.library.device_types.push_back(std::move(type));
    i.request.pool.push_back({name, "", 4, 2});
  }
  i.library.links = made_up_links();
  return i;
}

/// What a limit on devices' hourly cost leaves of a pool is searched as a pool of that size.
TEST(PoolPlanner, ALargerPoolIsNoWorseUnderTheSameLimit) {
  for (const int devices : {3, 6, 9}) {
    Instance i = usual();
    i.request.global_batch = 64;
    i.request.pool = {{"fast", "", devices, 8}};
    i.request.objective.limits.usd_per_hour = 2.0 * devices + 1;
    const auto small = plan(i);
    ASSERT_TRUE(small.best) << small.no_plan_reason;
    for (const int times : {2, 5}) {
      i.request.pool.front().count = devices * times;
      const auto large = plan(i);
      ASSERT_TRUE(large.best) << large.no_plan_reason;
      EXPECT_LE(large.best->value, small.best->value * (1 + 1e-9)) << devices << " x " << times << ": " << plan::summary(large.best->plan);
    }
  }
}

TEST(PoolPlanner, OneStageHasNothingToSchedule) {
  for (int seed = 0; seed < 12; ++seed) {
    Instance i = random_instance(seed, small_models());
    i.runtime = {};
    const auto answer = plan(i);
    std::vector<search::RankedPlan> all = answer.alternatives;
    if (answer.best) all.push_back(*answer.best);
    for (const auto& one : all)
      EXPECT_TRUE(one.plan.stages.size() > 1 || one.plan.schedule == plan::ScheduleKind::one_f_one_b) << plan::summary(one.plan);
  }
}

/// Told to stop at one answer to should_stop instead of the next, the planner does little less: at most a forecast and some estimates lie
/// between two of its questions.
TEST(PoolPlanner, AsksOftenWhetherToStop) {
  constexpr std::int64_t some_estimates = 300;
  Instance i = usual();
  i.request.global_batch = 32;
  i.request.pool = {{"fast", "a", 24, 4}, {"fast", "b", 24, 4}, {"slow", "a", 24, 4}};
  std::int64_t questions = 0;
  i.request.should_stop = [&] { return ++questions < 0; };
  plan(i);
  const auto all = questions;
  ASSERT_GT(all, 100);
  const auto stopped_at = [&](std::int64_t question) {
    questions = 0;
    i.request.should_stop = [&, question] { return ++questions >= question; };
    return plan(i);
  };
  for (std::int64_t question = 1; question < all; question += all / 20) {
    const auto earlier = stopped_at(question), later = stopped_at(question + 1);
    ASSERT_TRUE(earlier.best) << question << ": " << earlier.no_plan_reason;
    EXPECT_LE(later.considered - earlier.considered, 1) << question;
    EXPECT_LE(later.considered + later.pruned - earlier.considered - earlier.pruned, some_estimates) << question;
  }
}

/// What is best without a limit is best with one that it keeps.
TEST(PoolPlanner, ALimitThatIsKeptChangesNothing) {
  for (int seed = 0; seed < 12; ++seed) {
    Instance i = random_instance(seed, small_models());
    i.request.objective = {};
    for (auto& type : i.library.device_types) type.usd_per_hour = 1 + static_cast<double>(type.name.size());
    const auto free = plan(i);
    if (!free.best || !free.best->usd) continue;
    i.request.objective.limits.usd_per_iteration = *free.best->usd * 1.01;
    const auto kept = plan(i);
    ASSERT_TRUE(kept.best) << seed << ": " << kept.no_plan_reason;
    EXPECT_LE(kept.best->value, free.best->value * (1 + 1e-9)) << seed << ": " << plan::summary(kept.best->plan);
  }
}

/// `blocks` blocks on four devices, each of which holds such a part of the state and `beside` bytes.
Instance four_in_a_row(int blocks, int batch, int per_node, double part, std::int64_t beside) {
  Instance i = usual();
  i.request.model = model::built_in("gpt2-mini");
  i.request.model.blocks = blocks;
  i.request.global_batch = batch;
  i.request.pool = {{"fast", "", 4, per_node}};
  Bytes state{};
  for (const auto& tensor : model::tensors(i.request.model)) state += tensor.elements() * Bytes{16};
  for (auto& type : i.library.device_types) type.memory = {static_cast<std::int64_t>(part * static_cast<double>(state.count)) + beside};
  return i;
}

/// Four devices that each hold a good quarter of the model: a pipeline of four stages, which a small batch hardly fills.
TEST(PoolPlanner, SplitsBackwardPassesWhereThePipelineWaits) {
  const auto answer = plan(four_in_a_row(8, 8, 1, 0.375, 12 << 20));
  ASSERT_TRUE(answer.best) << answer.no_plan_reason;
  EXPECT_EQ(answer.best->plan.schedule, plan::ScheduleKind::zero_bubble) << plan::summary(answer.best->plan);
}

/// Four devices in a row, which all are needed, and four microbatches: bubbles shrink with several chunks a device.
TEST(PoolPlanner, InterleavesWhereMicrobatchesAreFew) {
  Instance i = four_in_a_row(14, 4, 4, 0.4, 8 << 20);
  const auto open = plan(i);  // with sharded optimizers two replicas fit, too
  i.request.constraints.shard_optimizer = false;
  const auto found = plan(i);
  ASSERT_TRUE(found.best) << found.no_plan_reason;
  EXPECT_GE(found.best->plan.chunks, 2) << plan::summary(found.best->plan);
  ASSERT_TRUE(open.best);
  EXPECT_LE(open.best->value, found.best->value);
}

/// Most of the model is a token embedding, which one head leaves whole, and no device can hold all of its state.
Instance short_of_state() {
  Instance i = usual();
  i.request.model = model::built_in("gpt2-mini");
  i.request.model.blocks = 1;
  i.request.model.heads = i.request.model.key_value_heads = 1;
  i.request.model.vocabulary = 20'000;
  i.request.pool = {{"fast", "", 4, 4}};
  Bytes state{};
  for (const auto& tensor : model::tensors(i.request.model)) state += tensor.elements() * Bytes{16};
  for (auto& type : i.library.device_types) type.memory = state;
  return i;
}

TEST(PoolPlanner, ShardsTheOptimizerWhereNothingElseFits) {
  Instance i = short_of_state();
  const auto answer = plan(i);
  ASSERT_TRUE(answer.best) << answer.no_plan_reason;
  EXPECT_TRUE(answer.best->plan.shard_optimizer) << plan::summary(answer.best->plan);
  const auto problems = Judge{i}.problems(answer);
  EXPECT_TRUE(problems.empty()) << joined(problems);
  for (auto& type : i.library.device_types) type.memory = type.memory + type.memory;
  const auto sub_pool = plan(i);
  ASSERT_TRUE(sub_pool.best) << sub_pool.no_plan_reason;
  EXPECT_LE(sub_pool.best->value, answer.best->value);
}

TEST(PoolPlanner, KeepsConstraints) {
  using plan::ScheduleKind;
  std::vector<search::Constraints> all_fixed(13);
  all_fixed[0].schedule = ScheduleKind::gpipe;
  all_fixed[1].schedule = ScheduleKind::zero_bubble, all_fixed[1].sequence_parallel = false;
  all_fixed[2].schedule = ScheduleKind::interleaved;
  all_fixed[3].chunks = 3;
  all_fixed[4].chunks = 1, all_fixed[4].sequence_parallel = true;
  all_fixed[5].sequence_parallel = false, all_fixed[5].shard_optimizer = true;
  all_fixed[6].data = 2, all_fixed[6].pipeline = 2;
  all_fixed[7].pipeline = 4, all_fixed[7].microbatch = 2;
  all_fixed[8].tensor = 2;
  all_fixed[9].recompute = plan::Recompute::full;
  all_fixed[10].microbatch = 3, all_fixed[10].recompute = plan::Recompute::selective;
  all_fixed[11].cuts = {0, 4, 10};
  all_fixed[12].cuts = {0, 1, 3, 6, 10}, all_fixed[12].chunks = 2;
  for (std::size_t m = 0; m < all_fixed.size(); ++m) {
    Instance i = four_in_a_row(8, 8, m == 4 || m == 8 ? 4 : 1, 0.6, 64 << 20);  // a device does not hold all of it
    i.request.constraints = all_fixed[m];
    const auto answer = plan(i);
    ASSERT_TRUE(answer.best) << m << ": " << answer.no_plan_reason;
    EXPECT_TRUE(keeps(answer.best->plan, settled(all_fixed[m]))) << plan::summary(answer.best->plan);
    for (const auto& other : answer.alternatives) EXPECT_TRUE(keeps(other.plan, settled(all_fixed[m]))) << plan::summary(other.plan);
    const auto problems = Judge{i}.problems(answer);
    EXPECT_TRUE(problems.empty()) << m << ": " << joined(problems);
  }
}

/// What is forbidden is not tried where nothing else fits.
TEST(PoolPlanner, SharesNoOptimizerThatMustStayWhole) {
  Instance i = short_of_state();
  ASSERT_TRUE(plan(i).best);
  i.request.constraints.shard_optimizer = false;
  const auto answer = plan(i);
  EXPECT_FALSE(answer.best);
  EXPECT_NE(answer.no_plan_reason.find("optimizer sharded over replicas would fit"), std::string::npos) << answer.no_plan_reason;
}

TEST(PoolPlanner, SaysWhatIsShort) {
  const auto why = [](auto change) {
    Instance i = usual();
    change(i);
    const auto answer = plan(i);
    EXPECT_FALSE(answer.best) << plan::summary(answer.best->plan);
    EXPECT_EQ(answer.no_plan_reason.find('\n'), std::string::npos) << answer.no_plan_reason;
    return answer.no_plan_reason;
  };
  const auto expect_words = [](const std::string& line, std::initializer_list<const char*> words) {
    for (const char* token_embedding : words) EXPECT_NE(line.find(token_embedding), std::string::npos) << line;
  };
  expect_words(why([](Instance& i) {
                 for (auto& type : i.library.device_types) type.memory = {100'000};
               }),
               {"memory of 8 devices", "needs", "KiB"});
  expect_words(why([](Instance& i) {  // of eight devices none holds a block, and no one group has more of them
                 i.request.model.blocks = 40;
                 i.request.global_batch = 1;
                 for (auto& type : i.library.device_types) type.memory = {1'300'000};
               }),
               {"a pool ", " times as large would hold the model"});
  expect_words(why([](Instance& i) { i.request.objective.limits.iterations_per_second = 1e6; }), {"1e+06", "iterations/s"});
  expect_words(why([](Instance& i) { i.request.objective.limits.usd_per_iteration = 1e-12; }), {"1e-12", "USD an iteration"});
  expect_words(why([](Instance& i) { i.request.objective.limits.usd_per_hour = 1; }), {"USD an hour where 1 are"});
  expect_words(why([](Instance& i) {
                 i.request.objective.limits.devices = 1;
                 i.request.objective.limits.iterations_per_second = 1e6;
               }),
               {"iterations/s where 1e+06"});
}

TEST(PoolPlanner, RefusesContradictions) {
  const auto refused = [](auto change) {
    Instance i = usual();
    change(i.request);
    tests::refusal([&] { plan(i); });
  };
  refused([](PlanRequest& r) { r.pool.clear(); });
  refused([](PlanRequest& r) {
    for (auto& entry : r.pool) entry.count = 0;
  });
  refused([](PlanRequest& r) { r.pool[0].count = -1; });
  refused([](PlanRequest& r) { r.pool[0].per_node = -2; });
  refused([](PlanRequest& r) { r.pool[0].count = 2'000'000'000; });
  refused([](PlanRequest& r) { r.pool[0].device_type = "unheard-of"; });
  refused([](PlanRequest& r) { r.global_batch = 0; });
  refused([](PlanRequest& r) { r.length = 0; });
  refused([](PlanRequest& r) { r.length = 1 << 20; });
  refused([](PlanRequest& r) { r.model.blocks = 0; });
  refused([](PlanRequest& r) { r.tolerance = -1; });
  refused([](PlanRequest& r) { r.objective.limits.usd_per_iteration = -1; });
  refused([](PlanRequest& r) { r.objective.limits.usd_per_hour = 0; });
  refused([](PlanRequest& r) { r.objective.limits.iterations_per_second = -0.5; });
  refused([](PlanRequest& r) { r.objective.limits.devices = 0; });
  refused([](PlanRequest& r) { r.constraints.chunks = r.model.layers() + 1; });
  refused([](PlanRequest& r) { r.constraints.chunks = 2, r.constraints.schedule = plan::ScheduleKind::gpipe; });
}

TEST(PoolPlanner, RefusesGoalsWithoutPrices) {
  for (const auto goal : {search::Goal::cost, search::Goal::billing, search::Goal::energy}) {
    Instance i = usual();
    i.request.objective.goal = goal;
    EXPECT_NO_THROW(plan(i));
    for (auto& type : i.library.device_types) type.usd_per_hour = type.billing_weight = type.power_watts = 0;
    EXPECT_THROW(plan(i), Error);
  }
}

TEST(PoolPlanner, StopsWhenTold) {
  for (int calls = 0; calls < 200; calls = calls * 2 + 1) {
    Instance i = usual();
    i.request.should_stop = [calls, asked = 0]() mutable { return asked++ >= calls; };
    const auto answer = plan(i);
    EXPECT_FALSE(answer.finished);
    const auto problems = Judge{i}.problems(answer);
    EXPECT_TRUE(problems.empty()) << calls << ": " << joined(problems);
  }
}

/// Nodes of 3 hold one group of two, wherever the entries of a pool stand.
TEST(PoolPlanner, CountsNodesNotDevices) {
  for (const auto& pool : std::vector<search::Pool>{
           {{"fast", "", 3, 2}, {"fast", "", 3, 2}}, {{"fast", "", 12, 6}, {"fast", "", 4, 4}}, {{"fast", "", 9, 3}}, {{"fast", "", 7, 8}}})
    for (int seed = 0; seed < 4; ++seed) {
      Instance i = usual();
      i.request.pool = pool;
      i.request.global_batch = 3 + seed;
      i.library.device_types[0].memory = {1'500'000};  // one device does not hold the model
      const auto answer = plan(i);
      const auto problems = Judge{i}.problems(answer);
      EXPECT_TRUE(problems.empty()) << joined(problems);
    }
}

}  // namespace
}  // namespace flotilla::fixture::pool_planner_test
