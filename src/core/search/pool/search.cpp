#include "search.hpp"

#include <algorithm>

#include "../bound/floor.hpp"
#include "../tuning.hpp"
#include "answer.hpp"
#include "candidate_generator.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/search/binding.hpp"
#include "refine.hpp"
#include "running_plan.hpp"
#include "uneven_pipeline_search.hpp"
#include "wide_groups.hpp"

namespace flotilla::search::pool {
namespace {

/// What plans are made of and forecast with: the library of types and links, the runtime, and the ranks if the pool is bound to some.
struct Basis {
  const cluster::Profile& library;
  const program::Runtime& runtime;
  const simulate::ProgramForecaster* ranks;
};

PlanAnswer search_for_plan(const PlanRequest&, const Basis&, const LargerPool&);

/// A plan as a candidate, its batch dealt anew.
std::optional<CandidatePlan> revived(const plan::Plan& plan, Estimator& estimate) {
  auto candidate = from_running_plan(plan, estimate.device_pool());
  if (candidate) estimate(*candidate);
  return candidate && !candidate->pipelines.empty() ? candidate : std::nullopt;
}

/// What runs now as far as the pool still holds it: with its own shares, and with those that the estimate deals.
void try_previous(const plan::Plan& previous, Estimator& estimate, Refine& refine) {
  const DevicePool& device_pool = estimate.device_pool();
  const auto candidate = revived(previous, estimate);
  if (previous.model == device_pool.request.model && previous.length == device_pool.request.length &&
      previous.global_batch == device_pool.request.global_batch && previous.precision == device_pool.request.precision)
    refine.keep(candidate.value_or(CandidatePlan{}), unbound(previous));
  if (candidate) refine.keep(*candidate, plan_of(*candidate, device_pool));
}

/// The best plans for another request, forecast for this one.
void try_plans_for(const PlanRequest& other, const Basis& basis, Estimator& estimate, Refine& refine) {
  const auto answer = search_for_plan(other, basis, [] { return std::nullopt; });
  if (!answer.best) return;
  std::vector<RankedPlan> all{*answer.best};
  all.insert(all.end(), answer.alternatives.begin(), answer.alternatives.end());
  for (const RankedPlan& one : all) {
    if (const auto candidate = revived(one.plan, estimate)) refine.attempt(*candidate);
    refine.attempt(unbound(one.plan));
  }
}

/// Where a limit binds, what is best without it is far from what keeps it: the plans that are best by what is limited are tried, too.
void try_by_what_is_limited(PlanRequest other, const Basis& basis, Estimator& estimate, Refine& refine) {
  Objective& objective = other.objective;
  if (objective.limits.usd_per_iteration && objective.goal != Goal::cost) {
    objective.goal = Goal::cost;
    objective.limits.usd_per_iteration.reset();
  } else if (objective.limits.iterations_per_second && objective.goal != Goal::throughput) {
    objective.goal = Goal::throughput;
    objective.limits.iterations_per_second.reset();
  } else {
    return;
  }
  try_plans_for(other, basis, estimate, refine);
}

/// What is best without any limit may keep them, whatever was estimated.
void try_without_limits(PlanRequest other, const Basis& basis, Estimator& estimate, Refine& refine) {
  if (other.objective.limits == Limits{}) return;
  other.objective.limits = {};
  try_plans_for(other, basis, estimate, refine);
}

PlanAnswer search_for_plan(const PlanRequest& request, const Basis& basis, const LargerPool& larger_pool) {
  const program::Runtime& runtime = basis.runtime;
  DevicePool device_pool{request, basis.library, basis.ranks ? &basis.ranks->profile() : nullptr};
  PlanEvaluator evaluator{device_pool, runtime, basis.ranks};
  LayerCostTable layer_cost_table{device_pool, evaluator};
  Network network{device_pool, evaluator};
  widen_groups(device_pool, layer_cost_table, network);
  Estimator estimate{device_pool, layer_cost_table, network, runtime};
  Shortlist list{device_pool, tuning::shortlist_length(device_pool.devices)};
  CandidateGenerator families{estimate, network, other_schedules(runtime, device_pool.devices), list, request.should_stop};
  Refine refine{estimate, network, evaluator, request.should_stop};
  families.run([&] { refine.set_aside(list); });
  refine.polish(list);
  refine.forecast(list);
  BoundProof floor = bound::floor_of(device_pool, layer_cost_table, estimate.sizes().back());
  const bool good_enough = !refine.found().empty() && floor.bound >= refine.found().front().value * (1 - request.tolerance);
  if (!good_enough) {
    PlanRequest other = request;
    other.previous.reset();
    if (!list.doubtful().empty() || refine.nearest_to_limits()) try_by_what_is_limited(other, basis, estimate, refine);
    try_without_limits(other, basis, estimate, refine);
    refine.improve();
    if (!refine.is_near(floor.bound)) refine.anneal(list);
  }
  // After the search that knows nothing of it, so that knowing it leads to no worse plan.
  if (request.previous) try_previous(*request.previous, estimate, refine);
  if (!good_enough) {
    if (request.previous) refine.improve();
    try_uneven_pipelines(estimate, network, families.microbatches(), refine, evaluator);
  }
  const Effort effort{estimate.count(), evaluator.forecasts(), families.stopped() || refine.stopped()};
  return answer_of(device_pool, refine, effort, std::move(floor), evaluator, larger_pool);
}

/// Whether a pool so many times as large holds a plan; nothing where it cannot be planned.
std::optional<bool> holds_a_plan(const PlanRequest& request, int times, const Basis& basis) {
  PlanRequest other = request;
  other.previous.reset();
  for (PoolEntry& entry : other.pool) {
    if (entry.count > tuning::most_devices_of_larger_pool / times) return std::nullopt;
    entry.count *= times;
  }
  try {
    return search_for_plan(other, {basis.library, basis.runtime, nullptr}, [] { return std::nullopt; }).best.has_value();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    return std::nullopt;  // a profile of one host knows no links to others
  }
}

/// The least: doubled until a plan fits, then halved between what is enough and what is not.
std::optional<int> times_as_large(const PlanRequest& request, const Basis& basis) {
  for (int times = 2; times <= tuning::largest_larger_pool; times *= 2) {
    const auto holds = holds_a_plan(request, times, basis);
    if (!holds) return std::nullopt;
    if (!*holds) continue;
    for (int less = times / 2; times - less > 1;) {
      const int middle = (less + times) / 2;
      (holds_a_plan(request, middle, basis).value_or(false) ? times : less) = middle;
    }
    return times;
  }
  return std::nullopt;
}

}  // namespace

PlanAnswer plan_over_pool(const PlanRequest& request, const cluster::Profile& library, const program::Runtime& runtime,
                          const simulate::ProgramForecaster* ranks) {
  const Basis basis{library, runtime, ranks};
  return search_for_plan(request, basis, [&] { return times_as_large(request, basis); });
}

}  // namespace flotilla::search::pool
