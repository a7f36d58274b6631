#include "rules_planner.hpp"

#include <algorithm>
#include <set>

#include "../explain.hpp"
#include "branch_and_bound.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/schedule/schedule.hpp"
#include "outcome.hpp"

namespace flotilla::search::rules {
namespace {

/// What the formulas know nothing of.
void require_in_space(const PlanRequest& request) {
  const Constraints& fixed = request.constraints;
  const bool plain = fixed.schedule.value_or(schedule::usual_schedule()) == schedule::usual_schedule() && fixed.chunks.value_or(1) == 1 &&
                     !fixed.sequence_parallel.value_or(false) && !fixed.shard_optimizer.value_or(false) &&
                     fixed.recompute.value_or(plan::Recompute::none) == plan::Recompute::none;
  FLOTILLA_REQUIRE(plain && fixed.at_least.empty(), ErrorKind::unavailable, "the closed formulas know ",
                   to_string(schedule::usual_schedule()),
                   " without recomputation, sharding or sequence parallelism, and their search demands no devices; leave these open, or "
                   "plan by the forecast of programs");
}

class RulesSearch {
 public:
  RulesSearch(const cluster::Profile& library, const sailor::SailorArtifact& forecaster) : library_{library}, forecaster_{forecaster} {}

  PlanAnswer run(const PlanRequest& request) const {
    if (request.restrictions.uniform_degrees && !request.constraints.tensor) return run_by_degree(request);
    const FormulaProblem problem{request, library_};
    BranchAndBound search{problem};
    search.run();
    PlanAnswer a = answer(problem, search);
    if (!a.best && !(request.should_stop && request.should_stop())) take_best_of_one_type(a, request, search.least());
    if (!a.best) a.no_plan_reason = search.stopped() ? "stopped before any plan was found" : why_none(problem, without_limits(request));
    return a;
  }

 private:
  PlanAnswer answer(const FormulaProblem& p, const BranchAndBound& search) const {
    PlanAnswer a;
    a.considered = search.considered();
    a.pruned = search.pruned();
    a.finished = search.finished();
    a.space = space_of(p);
    if (search.plans().empty()) return a;
    const Evaluated best = forecast(p, search.plans().front());
    a.best = ranked(best);
    a.binding = binding_of(p.request, library_, *a.best);
    set_bound(a, search.least());
    for (std::size_t i = 1; i < search.plans().size(); ++i)
      a.alternatives.push_back(alternative(forecast(p, search.plans()[i]), best, p.request.objective.goal));
    return a;
  }

  Evaluated forecast(const FormulaProblem& p, const FormulaPlan& found) const {
    plan::Plan plan = plan_of(p, found.plan);
    auto forecast = forecaster_.forecast(plan);
    return evaluated(std::move(plan), std::move(forecast), p.request.objective.goal, [](Rank) { return std::nullopt; });
  }

  static void set_bound(PlanAnswer& a, double least) {
    a.bound = std::min(least, a.best->value);
    a.bound_gap = std::clamp(1 - a.bound / a.best->value, 0.0, 1.0);
  }

  static bool is_better(const PlanAnswer& one, const PlanAnswer& other) {
    return one.best && (!other.best || one.best->value < other.best->value);
  }

  /// Takes another answer's plans in place of worse ones; what was looked at is that of both.
  static void take_better(PlanAnswer& a, PlanAnswer other) {
    const auto considered = a.considered + other.considered, pruned = a.pruned + other.pruned;
    std::string space = std::move(a.space);
    if (is_better(other, a)) a = std::move(other);
    a.considered = considered, a.pruned = pruned, a.space = std::move(space);
  }

  /// One degree in the whole plan: every one for itself. A plan of one degree is of no other one's space.
  PlanAnswer run_by_degree(PlanRequest request) const {
    PlanAnswer a;
    double least = never;
    bool finished = true;
    for (int tensor = 1; tensor <= model::largest_tensor_parallel(request.model); tensor *= 2) {
      request.constraints.tensor = tensor;
      PlanAnswer of_degree = run(request);
      if (tensor == 1) a.space = of_degree.space, a.no_plan_reason = of_degree.no_plan_reason;
      if (of_degree.best) least = std::min(least, of_degree.bound);
      finished = finished && of_degree.finished;
      take_better(a, std::move(of_degree));
    }
    a.finished = finished;
    if (a.best) set_bound(a, least);
    return a;
  }

  /// Where the work runs out before any plan is found: the best of its types one by one, which are soon searched. The bound is that of the
  /// whole pool.
  void take_best_of_one_type(PlanAnswer& a, const PlanRequest& request, double least) const {
    std::set<std::string> types;
    for (const PoolEntry& entry : request.pool) types.insert(entry.device_type);
    if (types.size() < 2) return;
    for (const std::string& type : types) {
      PlanRequest alone = request;
      alone.previous.reset();
      std::erase_if(alone.pool, [&](const PoolEntry& entry) { return entry.count == 0 || entry.device_type != type; });
      if (!alone.pool.empty()) take_better(a, run(alone));
    }
    if (!a.best) return;
    set_bound(a, least);
    a.finished = false;
  }

  /// Without limits, if there are any; by what the limits say of every plan: how fast, how cheap.
  std::optional<PlanAnswer> without_limits(PlanRequest free) const {
    const Limits limits = free.objective.limits;
    if (limits == Limits{}) return std::nullopt;
    free.objective = {limits.iterations_per_second ? Goal::throughput : Goal::cost, {}};
    const auto is_priced = [&](const PoolEntry& entry) { return cluster::find_type(library_, entry.device_type)->usd_per_hour > 0; };
    if (!std::ranges::all_of(free.pool, is_priced)) free.objective.goal = Goal::throughput;
    return run(free);
  }

  const cluster::Profile& library_;
  const sailor::SailorArtifact& forecaster_;
};

}  // namespace

PlanAnswer plan_by_rules(const PlanRequest& request, const cluster::Profile& library, const sailor::SailorArtifact& forecaster) {
  require_in_space(request);
  return RulesSearch{library, forecaster}.run(request);
}

}  // namespace flotilla::search::rules
