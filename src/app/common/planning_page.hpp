#pragma once
#include <string>

#include "app/common/planning_task.hpp"

namespace flotilla::app {

/// A planning with a plan as one HTML file that needs no other: the plan drawn, one of its iterations, where time and memory go, and what
/// else there was, time against cost. docs/planning.md describes it.
std::string planning_page(const files::Planning&, const PlanningTask&);

}  // namespace flotilla::app
