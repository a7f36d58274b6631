#include "app/common/planning_economics.hpp"

#include <algorithm>

#include "app/common/search_clock.hpp"
#include "flotilla/base/log.hpp"

namespace flotilla::app {
namespace {

constexpr std::size_t most_explained = 16;  // types and zones, each of which is planned for once or twice
constexpr std::size_t pareto_points = 8;
constexpr double better_by = 1e-6;  // relative: more than what rounding makes of equal plans

search::PlanRequest watched(const PlanningTask& task, SearchClock& clock) {
  auto request = task.request;
  request.should_stop = [&clock] { return clock.is_over(); };
  return request;
}

/// Another question started from another side and may have found a better plan: the search goes on from there.
bool take_better(files::Planning& planning, const search::PlanRequest& request, const simulate::Forecaster& forecaster,
                 const search::RankedPlan* other) {
  const auto improves = [&](const std::optional<search::RankedPlan>& plan) {
    return plan && plan->value < planning.answer.best->value * (1 - better_by);
  };
  if (other == nullptr || request.previous) return false;
  auto from_there = request;
  from_there.previous = other->plan;
  auto answer = search::plan(from_there, forecaster);
  if (!improves(answer.best)) return false;
  answer.best->moved = {};
  for (auto& alternative : answer.alternatives) alternative.moved = {};
  planning.answer = std::move(answer);
  return true;
}

/// The best plan that takes devices which the answer leaves idle, where it is better.
const search::RankedPlan* better_of(const std::vector<search::IdleDevices>& all, const search::RankedPlan& best) {
  const search::RankedPlan* better = nullptr;
  double least = best.value * (1 - better_by);
  for (const auto& idle : all)
    if (idle.with && idle.with->value < least) better = &*idle.with, least = better->value;
  return better;
}

/// The fastest plan of the front, where the fastest is asked for and it is faster.
const search::RankedPlan* better_of(const std::vector<search::RankedPlan>& front, const search::PlanRequest& request,
                                    const search::RankedPlan& best) {
  const bool asked = request.objective.goal == search::Goal::throughput && request.objective.limits == search::Limits{} && !front.empty();
  return asked && front.front().iteration.value < best.iteration.value * (1 - better_by) ? &front.front() : nullptr;
}

/// An answer that is faster than the front's fastest plan takes its place, and that of plans which it is cheaper than.
void put_first(std::vector<search::RankedPlan>& front, const search::RankedPlan& best) {
  if (front.empty() || !best.usd || best.iteration >= front.front().iteration) return;
  front.front() = best;
  front.erase(std::remove_if(front.begin() + 1, front.end(), [&](const auto& one) { return *one.usd >= *best.usd; }), front.end());
}

void add_front(files::Planning& planning, const PlanningTask& task) {
  SearchClock clock{"time against cost", task.next_limit()};
  const auto request = watched(task, clock);
  const auto forecaster = forecaster_for_pools(task.profile, task.settings);
  planning.pareto = search::pareto_front(request, *forecaster, planning.answer, pareto_points);
  take_better(planning, request, *forecaster, better_of(*planning.pareto, request, *planning.answer.best));
}

void explain(files::Planning& planning, const PlanningTask& task) {
  SearchClock clock{"explaining", task.next_limit()};
  const auto request = watched(task, clock);
  const auto forecaster = forecaster_for_pools(task.profile, task.settings);
  const auto idle = [&] { return search::why_idle(request, *forecaster, *planning.answer.best, most_explained); };
  planning.idle = idle();
  if (take_better(planning, request, *forecaster, better_of(*planning.idle, *planning.answer.best))) planning.idle = idle();
  planning.one_more_node = search::with_one_more_node(request, *forecaster, *planning.answer.best, most_explained);
  if (clock.cut_off()) log::warning("--search.time-limit was over before all was explained; give it more time, or leave out --explain");
}

}  // namespace

void add_economics(files::Planning& planning, const PlanningTask& task, const PlanningOptions& o) {
  if (o.pareto) add_front(planning, task);
  if (o.explain) explain(planning, task);
  if (planning.pareto) put_first(*planning.pareto, *planning.answer.best);
  planning.forecast = forecast_of(planning.answer.best->plan, task);
  if (task.iterations > 0) planning.run = search::totals_of(*planning.forecast, task.iterations);
}

}  // namespace flotilla::app
