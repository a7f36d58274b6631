#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <random>

#include "flotilla/base/error.hpp"
#include "flotilla/search/planner.hpp"
#include "simulate/cluster_fixture.hpp"

// The planner against plain enumeration, over random small instances.
namespace flotilla::optimality_test {
namespace {

using search::PlanAnswer;
using search::PlanRequest;
using simulate::ProgramForecaster;

constexpr int length = 16;

struct Instance {
  cluster::Profile profile;
  PlanRequest request;
};

Instance random_instance(std::mt19937_64& random, int family) {
  Instance i;
  i.profile = fixture::uniform_cluster(1, fixture::between(random, 1, 4), fixture::device_type("slow", 50, 10, {1LL << 40}));
  i.profile.links[0].pieces[0] = {{0}, {1e-6 * fixture::between(random, 1, 50)}, {1e8 * fixture::between(random, 1, 100)}};
  i.request.model = model::built_in(std::array{"gpt2-tiny", "gpt-neo-tiny", "llama-tiny"}[static_cast<std::size_t>(family)]);
  i.request.model.blocks = fixture::between(random, 1, 4);
  i.request.length = length;
  i.request.global_batch = fixture::between(random, 1, 6);
  i.request.alternatives = 1;
  i.request.restrictions.uniform_degrees = true;
  if (random() % 2) fixture::measure(i.profile, i.request.model, length, Precision::fp32, {1, 2}, {1, 4});
  if (random() % 2) {
    // Something between what the whole model and the smallest part of it needs, to make memory decide.
    const auto whole = plan::even_plan(i.request.model, length, i.request.global_batch, Precision::fp32, 1, 1, 1, 1);
    auto bound = whole;
    bound.stages[0].replicas[0].device_type = "slow";
    const Bytes needed = ProgramForecaster{i.profile, {}, {}}.forecast(bound).peak_memory();
    i.request.memory_limit = Bytes{needed.count * fixture::between(random, 30, 110) / 100};
  }
  return i;
}

void for_each_cut(int layers, int stages, std::vector<int> cuts, const std::function<void(const std::vector<int>&)>& visit) {
  if (static_cast<int>(cuts.size()) == stages) {
    cuts.push_back(layers);
    visit(cuts);
    return;
  }
  for (int next = cuts.back() + 1; next < layers; ++next) {
    auto longer = cuts;
    longer.push_back(next);
    for_each_cut(layers, stages, std::move(longer), visit);
  }
}

std::vector<plan::ScheduleKind> schedules_of(const PlanRequest& r) {
  if (r.constraints.chunks.value_or(1) > 1) return {plan::ScheduleKind::one_f_one_b};  // is cut into chunks then
  if (r.constraints.schedule) return {*r.constraints.schedule};
  return {plan::ScheduleKind::gpipe, plan::ScheduleKind::one_f_one_b};
}

/// Every even plan of the instance.
void for_each_plan(const Instance& i, const std::function<void(const plan::Plan&)>& visit) {
  const PlanRequest& r = i.request;
  const int ranks = static_cast<int>(i.profile.devices.size());
  const auto fixed = search::settled(r.constraints);
  for (int tensor = 1; tensor <= std::min(ranks, r.model.groups()); ++tensor)
    for (int pipeline = 1; pipeline * tensor <= ranks && pipeline <= r.model.layers(); ++pipeline)
      for (int data = 1; data * pipeline * tensor <= ranks && data <= r.global_batch; ++data)
        for (int microbatch = 1; microbatch <= (r.global_batch + data - 1) / data; ++microbatch)
          for (auto schedule : schedules_of(r))
            for (auto recompute : {plan::Recompute::none, plan::Recompute::selective, plan::Recompute::full})
              for_each_cut(r.model.layers(), pipeline, {0}, [&](const std::vector<int>& cuts) {
                auto plan =
                    plan::even_plan(r.model, r.length, r.global_batch, r.precision, data, pipeline, tensor, microbatch, schedule, cuts);
                for (auto& stage : plan.stages) {
                  stage.recompute = recompute;
                  for (auto& replica : stage.replicas) replica.device_type = "slow";
                }
                plan = search::constrained(std::move(plan), fixed);
                if (search::keeps(plan, fixed)) visit(plan);
              });
}

PlanAnswer find(const Instance& i) { return search::plan(i.request, ProgramForecaster{i.profile, {}, {}}); }

class Optimality : public testing::TestWithParam<int> {};

TEST_P(Optimality, EqualsEnumeration) {
  std::mt19937_64 random{static_cast<std::uint64_t>(GetParam())};
  Instance i = random_instance(random, GetParam() % 3);
  if (GetParam() % 4 == 3) i.request.constraints.schedule = plan::ScheduleKind::zero_bubble;  // whose bounds are others
  if (GetParam() % 8 == 1) i.request.constraints.chunks = 2;
  if (GetParam() % 8 == 5) i.request.constraints.sequence_parallel = true;
  if (GetParam() % 4 == 2) i.request.constraints.shard_optimizer = true;
  const ProgramForecaster forecaster{i.profile, {}, {}};
  std::optional<Seconds> best;
  for_each_plan(i, [&](const plan::Plan& plan) {
    const auto f = forecaster.forecast(plan);
    if (i.request.memory_limit && f.peak_memory() > *i.request.memory_limit) return;
    if (!best || f.iteration < *best) best = f.iteration;
  });
  const PlanAnswer a = find(i);
  ASSERT_EQ(a.best.has_value(), best.has_value()) << a.no_plan_reason;
  if (!best) {
    ASSERT_TRUE(a.nearest_miss);
    EXPECT_GT(a.nearest_miss->needed, *i.request.memory_limit);
    return;
  }
  EXPECT_LE(a.best->iteration.value, best->value * (1 + 1e-12)) << search::describe(a.best->plan);
  if (i.request.memory_limit) {
    EXPECT_LE(a.best->peak_memory, *i.request.memory_limit);
  }
}

TEST_P(Optimality, MoreMemoryOrMoreRanksAreNeverWorse) {
  std::mt19937_64 random{static_cast<std::uint64_t>(GetParam()) + 1000};
  Instance i = random_instance(random, GetParam() % 3);
  const PlanAnswer before = find(i);
  const auto no_worse = [&](const PlanAnswer& after) {
    return !before.best || (after.best && after.best->iteration.value <= before.best->iteration.value * (1 + 1e-12));
  };
  Instance roomier = i;
  if (roomier.request.memory_limit) roomier.request.memory_limit = *i.request.memory_limit + Bytes{fixture::between(random, 1, 1 << 20)};
  EXPECT_TRUE(no_worse(find(roomier)));
  Instance larger = i;
  const int ranks = static_cast<int>(i.profile.devices.size());
  larger.profile.devices.push_back({Rank{ranks}, "slow", "h0", "", ranks, 1});
  EXPECT_TRUE(no_worse(find(larger)));
}

INSTANTIATE_TEST_SUITE_P(Random, Optimality, testing::Range(0, 24));

}  // namespace
}  // namespace flotilla::optimality_test
