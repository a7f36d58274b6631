#include <algorithm>

#include "../replan.hpp"
#include "answer.hpp"
#include "families.hpp"
#include "floor.hpp"
#include "lines.hpp"
#include "refine.hpp"
#include "revive.hpp"

namespace flotilla::search {

using namespace pool;

namespace {

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

PoolAnswer search_once(const PoolRequest& request, const cluster::Profile& library, const program::Runtime& runtime);

/// Where a limit binds, what is best without it is far from what keeps it: the plans that are best by what is limited are tried, too.
void try_by_what_is_limited(const PoolRequest& request, const cluster::Profile& library, const program::Runtime& runtime,
                            Estimator& estimate, Refine& refine) {
  PoolRequest other = request;
  other.previous.reset();
  const Limits& limits = request.objective.limits;
  if (limits.usd_per_iteration && request.objective.goal != Goal::cost) {
    other.objective.goal = Goal::cost;
    other.objective.limits.usd_per_iteration.reset();
  } else if (limits.iterations_per_second && request.objective.goal != Goal::throughput) {
    other.objective.goal = Goal::throughput;
    other.objective.limits.iterations_per_second.reset();
  } else {
    return;
  }
  const auto answer = search_once(other, library, runtime);
  if (!answer.best) return;
  std::vector<PooledPlan> all{*answer.best};
  all.insert(all.end(), answer.alternatives.begin(), answer.alternatives.end());
  for (const PooledPlan& one : all) {
    if (const auto sketch = revived(one.plan, estimate))
      refine.attempt(*sketch);
    else
      refine.attempt(one.plan);
  }
}

PoolAnswer search_once(const PoolRequest& request, const cluster::Profile& library, const program::Runtime& runtime) {
  const Stock stock{request, library};
  Bench bench{stock, runtime};
  Soundings soundings{stock, bench};
  Network network{stock, runtime};
  Estimator estimate{stock, soundings, network, runtime};
  Shortlist list{stock, shortlist_length(stock.devices)};
  if (request.previous) offer_previous(*request.previous, estimate, list);
  Families families{estimate, network, abilities_of(runtime), list, request.should_stop};
  families.run();
  Refine refine{stock, estimate, bench, request.should_stop};
  refine.polish(list);
  if (request.previous) try_previous(*request.previous, estimate, refine);
  refine.forecast(list);
  if (!list.doubtful().empty() || refine.nearest_to_limits()) try_by_what_is_limited(request, library, runtime, estimate, refine);
  refine.improve(most_improvements(stock.devices));
  refine.vary();
  try_lines(estimate, network, families.microbatches(), refine, bench);
  auto answer = answer_of(stock, refine, {estimate.count(), bench.forecasts(), families.stopped() || refine.stopped()},
                          floor_of_value(stock, soundings, families.microbatches()), bench);
  prefer_what_moves_least(answer, request);
  return answer;
}

}  // namespace

/// Where nothing fits, replicas that share their optimizer out may.
PoolAnswer plan_by_program(const PoolRequest& request, const cluster::Profile& library, const program::Runtime& runtime) {
  auto answer = search_once(request, library, runtime);
  const bool stopped = request.should_stop && request.should_stop();
  if (answer.best || stopped || runtime.layers || request.shard_optimizer) return answer;
  PoolRequest other = request;
  other.shard_optimizer = true;
  auto shared = search_once(other, library, runtime);
  if (!shared.best) return answer;
  shared.considered += answer.considered;
  shared.pruned += answer.pruned;
  return shared;
}

}  // namespace flotilla::search
