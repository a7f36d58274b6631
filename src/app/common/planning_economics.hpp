#pragma once
#include "app/common/planning_task.hpp"

namespace flotilla::app {

/// The forecast of the answer, and what surrounds it: with --pareto time against cost, with --explain why devices stay idle and what one
/// more node would bring, and what the whole run comes to, where its length is known. Where one of these turns up a better plan, it becomes
/// the answer.
void add_economics(files::Planning&, const PlanningTask&, const PlanningOptions&);

}  // namespace flotilla::app
