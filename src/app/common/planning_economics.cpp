#include "app/common/planning_economics.hpp"

#include <algorithm>

#include "app/common/search_clock.hpp"

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

/// The plans that take idle devices started from another side, and one of them may be better.
bool take_better(files::Planning& planning, const search::PlanRequest& request, const simulate::Forecaster& forecaster) {
  const search::RankedPlan* better = nullptr;
  double least = planning.answer.best->value * (1 - better_by);
  for (const auto& idle : *planning.idle)
    if (idle.with && idle.with->value < least) better = &*idle.with, least = better->value;
  if (better == nullptr || request.previous) return false;
  auto from_there = request;
  from_there.previous = better->plan;
  auto answer = search::plan(from_there, forecaster);
  if (!answer.best) return false;
  answer.best->moved = {};
  for (auto& other : answer.alternatives) other.moved = {};
  planning.answer = std::move(answer);
  return true;
}

}  // namespace

void explain(files::Planning& planning, const PlanningTask& task, const PlanningOptions& o) {
  if (!o.explain) return;
  SearchClock clock{"explaining", o.time_limit};
  const auto request = watched(task, clock);
  const auto forecaster = forecaster_for_pools(task.profile, task.settings);
  const auto idle = [&] { return search::why_idle(request, *forecaster, *planning.answer.best, most_explained); };
  planning.idle = idle();
  if (take_better(planning, request, *forecaster)) planning.idle = idle();
  planning.one_more_node = search::with_one_more_node(request, *forecaster, *planning.answer.best, most_explained);
}

void add_economics(files::Planning& planning, const PlanningTask& task, const PlanningOptions& o) {
  if (task.iterations > 0) planning.run = search::totals_of(*planning.forecast, task.iterations);
  if (!o.pareto) return;
  SearchClock clock{"time against cost", o.time_limit};
  planning.pareto =
      search::pareto_front(watched(task, clock), *forecaster_for_pools(task.profile, task.settings), planning.answer, pareto_points);
}

}  // namespace flotilla::app
