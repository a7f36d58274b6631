#pragma once
#include "app/common/planning_task.hpp"

namespace flotilla::app {

/// With --explain: why devices stay idle and what one more node would bring. Where a plan that takes idle devices turns out to be better,
/// it is the answer.
void explain(files::Planning&, const PlanningTask&, const PlanningOptions&);

/// Of a planning with its forecast: what the whole run comes to, where its length is known, and with --pareto time against cost.
void add_economics(files::Planning&, const PlanningTask&, const PlanningOptions&);

}  // namespace flotilla::app
