#include <algorithm>

#include "../replan.hpp"
#include "answer.hpp"
#include "families.hpp"
#include "floor.hpp"
#include "flotilla/base/error.hpp"
#include "lines.hpp"
#include "refine.hpp"
#include "revive.hpp"
#include "wide_groups.hpp"

namespace flotilla::search {

using namespace pool;

namespace {

PoolAnswer search_for_plan(const PoolRequest&, const cluster::Profile& library, const program::Runtime&, const LargerPool&);

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
void try_plans_for(const PoolRequest& other, const cluster::Profile& library, const program::Runtime& runtime, Estimator& estimate,
                   Refine& refine) {
  const auto answer = search_for_plan(other, library, runtime, [] { return std::nullopt; });
  if (!answer.best) return;
  std::vector<PooledPlan> all{*answer.best};
  all.insert(all.end(), answer.alternatives.begin(), answer.alternatives.end());
  for (const PooledPlan& one : all) {
    if (const auto sketch = revived(one.plan, estimate)) refine.attempt(*sketch);
    refine.attempt(one.plan);
  }
}

/// Where a limit binds, what is best without it is far from what keeps it: the plans that are best by what is limited are tried, too.
void try_by_what_is_limited(PoolRequest other, const cluster::Profile& library, const program::Runtime& runtime, Estimator& estimate,
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
void try_without_limits(PoolRequest other, const cluster::Profile& library, const program::Runtime& runtime, Estimator& estimate,
                        Refine& refine) {
  if (other.objective.limits == Limits{}) return;
  other.objective.limits = {};
  try_plans_for(other, library, runtime, estimate, refine);
}

PoolAnswer search_for_plan(const PoolRequest& request, const cluster::Profile& library, const program::Runtime& runtime,
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
  PoolRequest other = request;
  other.previous.reset();
  if (!list.doubtful().empty() || refine.nearest_to_limits()) try_by_what_is_limited(other, library, runtime, estimate, refine);
  try_without_limits(other, library, runtime, estimate, refine);
  refine.improve();
  try_lines(estimate, network, families.microbatches(), refine, bench);
  auto answer = answer_of(stock, refine, {estimate.count(), bench.forecasts(), families.stopped() || refine.stopped()},
                          floor_of_value(stock, soundings, estimate.sizes()), bench, larger_pool);
  prefer_what_moves_least(answer, request);
  return answer;
}

constexpr int largest_pool = 64;         // times
constexpr int most_devices = 1'000'000;  // that a pool may hold

/// Whether a pool so many times as large holds a plan; nothing where it cannot be planned.
std::optional<bool> holds_a_plan(const PoolRequest& request, int times, const cluster::Profile& library, const program::Runtime& runtime) {
  PoolRequest other = request;
  other.previous.reset();
  for (PoolEntry& entry : other.pool) {
    if (entry.count > most_devices / times) return std::nullopt;
    entry.count *= times;
  }
  try {
    return search_for_plan(other, library, runtime, [] { return std::nullopt; }).best.has_value();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    return std::nullopt;  // a profile of one host knows no links to others
  }
}

/// The least: doubled until a plan fits, then halved between what is enough and what is not.
std::optional<int> times_as_large(const PoolRequest& request, const cluster::Profile& library, const program::Runtime& runtime) {
  for (int times = 2; times <= largest_pool; times *= 2) {
    const auto holds = holds_a_plan(request, times, library, runtime);
    if (!holds) return std::nullopt;
    if (!*holds) continue;
    for (int less = times / 2; times - less > 1;) {
      const int middle = (less + times) / 2;
      (holds_a_plan(request, middle, library, runtime).value_or(false) ? times : less) = middle;
    }
    return times;
  }
  return std::nullopt;
}

}  // namespace

PoolAnswer plan_by_program(const PoolRequest& asked, const cluster::Profile& library, const program::Runtime& runtime) {
  PoolRequest request = asked;
  request.manner = settled(asked.manner);
  return search_for_plan(request, library, runtime, [&] { return times_as_large(request, library, runtime); });
}

}  // namespace flotilla::search
