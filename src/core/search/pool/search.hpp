#pragma once
#include "flotilla/program/runtime.hpp"
#include "flotilla/search/planner.hpp"

namespace flotilla::search::pool {

/// The best unbound plan over a checked request's pool by the forecast of programs.
PlanAnswer plan_over_pool(const PlanRequest&, const cluster::Profile& library, const program::Runtime&);

}  // namespace flotilla::search::pool
