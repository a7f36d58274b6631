// Whether another plan would serve a run better, where something has become slow.
#include "better_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/simulate/forecaster.hpp"
#include "simulate/cluster_fixture.hpp"

namespace flotilla::session {
namespace {

constexpr int job_ranks = 4, tokens = 32;

/// A run of GPT-2 mini under the planner's own plan.
struct HealthyRun {
  HealthyRun() {
    request.model = model::built_in("gpt2-mini");
    request.length = tokens;
    request.global_batch = 32;
    chosen.profile = fixture::uniform_cluster(job_ranks, 1);
    fixture::measure(chosen.profile, request.model, tokens, Precision::fp32, {1}, {1, 2, 4, 8});
    const simulate::ProgramForecaster forecaster{chosen.profile, runtime, {}};
    chosen.plan = search::plan(request, forecaster).best.value().plan;
    for (int r = 0; r < plan::rank_count(chosen.plan); ++r) active_ranks.emplace_back(r);
  }

  std::optional<BetterPlan> asked(const std::vector<monitor::Slowness>& slow, std::int64_t steps_left) const {
    return better_plan({chosen, active_ranks, job_ranks, slow, steps_left, runtime, {}}, request);
  }

  search::PlanRequest request;
  program::Runtime runtime;
  ChosenPlan chosen;
  std::vector<Rank> active_ranks;
};

std::vector<monitor::Slowness> slow_device(int rank, double factor) {
  monitor::Slowness s;
  s.rank = Rank{rank};
  s.factor = factor;
  return {s};
}

/// Sequences that go through a rank's blocks, over all stages: embedding and head of so small a model are hardly work.
int sequences_of(const plan::Plan& plan, Rank rank) {
  int sequences = 0;
  const int last_block = plan.model.blocks + 1;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      if (std::ranges::find(replica.devices, rank) != replica.devices.end())
        sequences += replica.sequences * std::max(0, std::min(stage.last_layer, last_block) - std::max(stage.first_layer, 1));
  return sequences;
}

TEST(BetterPlan, ASlowDeviceGetsLessWork) {
  const HealthyRun run;
  const auto better = run.asked(slow_device(1, 6), 100'000);
  ASSERT_TRUE(better);
  EXPECT_TRUE(plan::validate(better->plan).empty());
  EXPECT_LT(sequences_of(better->plan, Rank{1}), sequences_of(run.chosen.plan, Rank{1}))
      << plan::summary(run.chosen.plan) << " -> " << plan::summary(better->plan);
  EXPECT_LT(better->offer.changed, better->offer.stays);
  EXPECT_EQ(better->offer.steps_left, 100'000);
  for (const auto& stage : better->plan.stages)
    for (const auto& replica : stage.replicas) EXPECT_EQ(replica.device_type, "slow") << "types are the profile's, not today's";
}

TEST(BetterPlan, NotForTheLastSteps) { EXPECT_FALSE(HealthyRun{}.asked(slow_device(1, 6), 2)); }

TEST(BetterPlan, NotWhereNothingIsSlow) { EXPECT_FALSE(HealthyRun{}.asked({}, 100'000)); }

TEST(BetterPlan, NotForALittle) { EXPECT_FALSE(HealthyRun{}.asked(slow_device(1, 1.02), 100'000)); }

TEST(BetterPlan, ASearchThatIsStoppedHasNoAnswer) {
  HealthyRun run;
  run.request.should_stop = [] { return true; };
  EXPECT_FALSE(run.asked(slow_device(1, 6), 100'000));
}

TEST(BetterPlan, KeepsWhatTheJobSays) {
  HealthyRun run;
  run.request.constraints.schedule = plan::ScheduleKind::gpipe;
  const auto better = run.asked(slow_device(1, 6), 100'000);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->plan.schedule, plan::ScheduleKind::gpipe);
}

}  // namespace
}  // namespace flotilla::session
