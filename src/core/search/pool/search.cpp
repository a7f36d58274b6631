#include "search.hpp"

#include <algorithm>

#include "../bound/floor.hpp"
#include "../tuning.hpp"
#include "answer.hpp"
#include "families.hpp"
#include "flotilla/base/error.hpp"
#include "lines.hpp"
#include "refine.hpp"
#include "revive.hpp"
#include "wide_groups.hpp"

namespace flotilla::search::pool {
namespace {

PlanAnswer search_for_plan(const PlanRequest&, const cluster::Profile& library, const program::Runtime&, const LargerPool&);

/// A plan as a sketch, its batch dealt anew.
std::optional<Sketch> revived(const plan::Plan& plan, Estimator& estimate) {
  auto sketch = revive(plan, estimate.stock());
  if (sketch) estimate(*sketch);
  return sketch && !sketch->columns.empty() ? sketch : std::nullopt;
}

/// What runs now as far as the pool still holds it: where local search starts, too.
void offer_previous(const plan::Plan& previous, Estimator& estimate, Shortlist& list) {
  auto sketch = revive(previous, estimate.stock());
  if (sketch) list.offer(*sketch, estimate(*sketch));
}

/// Its own shares, and those that the estimate deals.
void try_previous(const plan::Plan& previous, Estimator& estimate, Refine& refine) {
  const Stock& stock = estimate.stock();
  const auto sketch = revived(previous, estimate);
  if (previous.model == stock.request.model && previous.length == stock.request.length &&
      previous.global_batch == stock.request.global_batch && previous.precision == stock.request.precision)
    refine.keep(sketch.value_or(Sketch{}), unbound(previous));
  if (sketch) refine.keep(*sketch, plan_of(*sketch, stock));
}

/// The best plans for another request, forecast for this one.
void try_plans_for(const PlanRequest& other, const cluster::Profile& library, const program::Runtime& runtime, Estimator& estimate,
                   Refine& refine) {
  const auto answer = search_for_plan(other, library, runtime, [] { return std::nullopt; });
  if (!answer.best) return;
  std::vector<RankedPlan> all{*answer.best};
  all.insert(all.end(), answer.alternatives.begin(), answer.alternatives.end());
  for (const RankedPlan& one : all) {
    if (const auto sketch = revived(one.plan, estimate)) refine.attempt(*sketch);
    refine.attempt(one.plan);
  }
}

/// Where a limit binds, what is best without it is far from what keeps it: the plans that are best by what is limited are tried, too.
void try_by_what_is_limited(PlanRequest other, const cluster::Profile& library, const program::Runtime& runtime, Estimator& estimate,
                            Refine& refine) {
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
  try_plans_for(other, library, runtime, estimate, refine);
}

/// What is best without any limit may keep them, whatever was estimated.
void try_without_limits(PlanRequest other, const cluster::Profile& library, const program::Runtime& runtime, Estimator& estimate,
                        Refine& refine) {
  if (other.objective.limits == Limits{}) return;
  other.objective.limits = {};
  try_plans_for(other, library, runtime, estimate, refine);
}

PlanAnswer search_for_plan(const PlanRequest& request, const cluster::Profile& library, const program::Runtime& runtime,
                           const LargerPool& larger_pool) {
  Stock stock{request, library};
  Bench bench{stock, runtime};
  Soundings soundings{stock, bench};
  Network network{stock, bench};
  widen_groups(stock, soundings, network);
  Estimator estimate{stock, soundings, network, runtime};
  Shortlist list{stock, shortlist_length(stock.devices)};
  if (request.previous) offer_previous(*request.previous, estimate, list);
  Families families{estimate, network, abilities_of(runtime), list, request.should_stop};
  families.run();
  Refine refine{stock, estimate, bench, request.should_stop};
  refine.polish(list);
  if (request.previous) try_previous(*request.previous, estimate, refine);
  refine.forecast(list);
  BoundProof floor = bound::floor_of(stock, soundings, estimate.sizes().back());
  const bool good_enough = !refine.found().empty() && floor.bound >= refine.found().front().value * (1 - request.tolerance);
  if (!good_enough) {
    PlanRequest other = request;
    other.previous.reset();
    if (!list.doubtful().empty() || refine.nearest_to_limits()) try_by_what_is_limited(other, library, runtime, estimate, refine);
    try_without_limits(other, library, runtime, estimate, refine);
    refine.improve();
    refine.vary();
    refine.improve_split();
    try_lines(estimate, network, families.microbatches(), refine, bench);
  }
  const Effort effort{estimate.count(), bench.forecasts(), families.stopped() || refine.stopped()};
  return answer_of(stock, refine, effort, std::move(floor), bench, larger_pool);
}

/// In powers of two.
std::optional<int> times_as_large(const PlanRequest& request, const cluster::Profile& library, const program::Runtime& runtime) {
  PlanRequest other = request;
  other.previous.reset();
  for (int times = 2; times <= tuning::largest_larger_pool; times *= 2) {
    for (std::size_t e = 0; e < other.pool.size(); ++e) {
      if (request.pool[e].count > tuning::most_devices_of_larger_pool / times) return std::nullopt;
      other.pool[e].count = request.pool[e].count * times;
    }
    try {
      if (search_for_plan(other, library, runtime, [] { return std::nullopt; }).best) return times;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
      return std::nullopt;  // a profile of one host knows no links to others
    }
  }
  return std::nullopt;
}

/// Where nothing fits, replicas that share their optimizer out may.
PlanAnswer search_with_shared_optimizers(PlanRequest request, const cluster::Profile& library, const program::Runtime& runtime) {
  if (runtime.layers || request.constraints.shard_optimizer || (request.should_stop && request.should_stop())) return {};
  request.constraints.shard_optimizer = true;
  return search_for_plan(request, library, runtime, [] { return std::nullopt; });
}

}  // namespace

PlanAnswer plan_over_pool(const PlanRequest& request, const cluster::Profile& library, const program::Runtime& runtime) {
  if (const int size = request.constraints.microbatch.value_or(1); !is_searched(size)) {
    PlanAnswer none;
    none.no_plan_reason = text("microbatches above ", largest_microbatch, " sequences are searched in powers of two alone, not of ", size);
    return none;
  }
  std::optional<PlanAnswer> shared;
  const auto larger_pool = [&]() -> std::optional<int> {
    shared = search_with_shared_optimizers(request, library, runtime);
    return shared->best ? std::nullopt : times_as_large(request, library, runtime);
  };
  auto answer = search_for_plan(request, library, runtime, larger_pool);
  if (answer.best) return answer;
  if (!shared) shared = search_with_shared_optimizers(request, library, runtime);
  if (!shared->best) return answer;
  shared->considered += answer.considered;
  shared->pruned += answer.pruned;
  return *shared;
}

}  // namespace flotilla::search::pool
