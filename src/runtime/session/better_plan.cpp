#include "better_plan.hpp"

#include <tuple>

#include "flotilla/monitor/slowed_profile.hpp"
#include "flotilla/plan/bind.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/moving_time.hpp"
#include "host_permutation.hpp"

namespace flotilla::session {
namespace {

constexpr int most_detours = 64;  // ways round slow links that are forecast

/// Types are what the devices are; how fast they are now is the forecast's business.
plan::Plan on_devices_of(plan::Plan plan, const cluster::Profile& profile, int ranks) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type.clear();
  return plan::bound(std::move(plan), profile, ranks, "the plan");
}

struct Candidate {
  plan::Plan plan;
  Seconds iteration;
};

/// The answer, or what goes round a slow link and is faster.
Candidate best_of(const search::PlanAnswer& answer, const plan::Plan& active, const cluster::Profile& today,
                  const simulate::ProgramForecaster& forecaster, std::span<const cluster::SlowPair> slow) {
  Candidate best{answer.best->plan, answer.best->iteration};
  std::vector<plan::Plan> plans{answer.best->plan, active};
  for (const auto& other : answer.alternatives) plans.push_back(other.plan);
  int left = most_detours;
  for (const auto& plan : plans)
    for (const auto& host_permutation : host_permutations(plan, today, slow)) {
      if (left-- == 0) return best;
      const Seconds iteration = forecaster.forecast(host_permutation).iteration;
      if (iteration < best.iteration) best = {host_permutation, iteration};
    }
  return best;
}

}  // namespace

std::optional<BetterPlan> better_plan(const ReplanQuestion& question, search::PlanRequest request) {
  const auto& [plan, profile] = std::tie(question.active.plan, question.active.profile);
  const auto today = monitor::slowed(profile, question.slow, question.active_ranks);
  const simulate::ProgramForecaster forecaster{today, question.runtime, question.runtime_constant};
  const auto active = on_devices_of(plan, today, question.ranks);
  request.previous = active;
  const auto answer = search::plan(request, forecaster);
  if (!answer.best || (request.should_stop && request.should_stop())) return std::nullopt;
  const auto pairs = monitor::slow_pairs(profile, question.slow, question.active_ranks);
  const auto best = best_of(answer, active, today, forecaster, pairs);
  auto next = on_devices_of(best.plan, profile, question.ranks);
  if (next == plan) return std::nullopt;
  const ChangeOffer offer{forecaster.forecast(active).iteration, best.iteration, simulate::moving_time(today, plan, next),
                          question.steps_left};
  if (!worth_changing(offer)) return std::nullopt;
  return BetterPlan{std::move(next), offer};
}

}  // namespace flotilla::session
