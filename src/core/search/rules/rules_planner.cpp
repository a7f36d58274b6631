#include <algorithm>
#include <set>

#include "../explain.hpp"
#include "branch_and_bound.hpp"
#include "flotilla/base/error.hpp"
#include "outcome.hpp"
#include "rules_planner.hpp"

namespace flotilla::search::rules {
namespace {

/// The formulas know 1F1B alone, and their search fixes nothing.
void require_in_space(const PlanRequest& request) {
  const Constraints& fixed = request.constraints;
  const bool plain = fixed.schedule.value_or(plan::ScheduleKind::one_f_one_b) == plan::ScheduleKind::one_f_one_b &&
                     fixed.chunks.value_or(1) == 1 && !fixed.sequence_parallel.value_or(false) && !fixed.shard_optimizer.value_or(false) &&
                     fixed.recompute.value_or(plan::Recompute::none) == plan::Recompute::none;
  const bool open = !fixed.data && !fixed.pipeline && !fixed.tensor && !fixed.microbatch && fixed.cuts.empty() && fixed.at_least.empty();
  FLOTILLA_REQUIRE(plain && open && !request.restrictions.uniform_degrees, ErrorKind::unavailable,
                   "the closed formulas know 1F1B without recomputation, sharding or sequence parallelism, and their search fixes no "
                   "degrees, cuts or microbatches; leave these open, or plan by the forecast of programs");
}

PlanAnswer answer(const FormulaProblem& p, const cluster::Profile& library, const BranchAndBound& search) {
  PlanAnswer a;
  a.considered = search.considered();
  a.pruned = search.pruned();
  a.finished = search.finished();
  a.space = space_of(p);
  if (search.plans().empty()) return a;
  const FormulaPlan& best = search.plans().front();
  a.best = pooled(p, best);
  a.binding = binding_of(p.request, library, *a.best);
  a.bound = std::min(search.least(), best.value);
  a.bound_gap = std::clamp(1 - std::min(search.least(), best.value) / best.value, 0.0, 1.0);
  for (std::size_t i = 1; i < search.plans().size(); ++i) {
    a.alternatives.push_back(pooled(p, search.plans()[i]));
    a.alternatives.back().reason = why_lost(p, search.plans()[i], best);
  }
  return a;
}

/// Where the work runs out before any plan is found: the best of its types one by one, which are soon searched. The bound is that of the
/// whole pool.
void take_best_of_one_type(PlanAnswer& a, const PlanRequest& request, const cluster::Profile& library, double least) {
  std::set<std::string> types;
  for (const PoolEntry& entry : request.pool) types.insert(entry.device_type);
  if (types.size() < 2) return;
  for (const std::string& type : types) {
    PlanRequest alone = request;
    alone.previous.reset();
    std::erase_if(alone.pool, [&](const PoolEntry& entry) { return entry.count == 0 || entry.device_type != type; });
    if (alone.pool.empty()) continue;
    PlanAnswer of_type = plan_by_rules(alone, library);
    if (!of_type.best || (a.best && a.best->value <= of_type.best->value)) continue;
    of_type.considered += a.considered, of_type.pruned += a.pruned;
    of_type.space = a.space;
    a = std::move(of_type);
    a.bound_gap = std::clamp(1 - std::min(least, a.best->value) / a.best->value, 0.0, 1.0);
    a.finished = false;
  }
}

}  // namespace

PlanAnswer plan_by_rules(const PlanRequest& request, const cluster::Profile& library) {
  require_in_space(request);
  const FormulaProblem problem{request, library};
  BranchAndBound search{problem};
  search.run();
  PlanAnswer a = answer(problem, library, search);
  if (!a.best && !(request.should_stop && request.should_stop())) take_best_of_one_type(a, request, library, search.least());
  if (!a.best) a.no_plan_reason = search.stopped() ? "stopped before any plan was found" : why_none(problem, library);
  return a;
}

}  // namespace flotilla::search::rules
