#pragma once
#include "flotilla/program/runtime.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/simulate/forecaster.hpp"

namespace flotilla::search::pool {

/// The best plan over a checked request's pool by the forecast of programs. `ranks`: what the pool's devices are; plans are bound to them
/// and forecast there. Without, plans are unbound.
PlanAnswer plan_over_pool(const PlanRequest&, const cluster::Profile& library, const program::Runtime&,
                          const simulate::ProgramForecaster* ranks = nullptr);

}  // namespace flotilla::search::pool
