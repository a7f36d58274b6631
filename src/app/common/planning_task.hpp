#pragma once
#include <map>
#include <string>

#include "app/common/forecasting.hpp"
#include "app/common/planning_options.hpp"
#include "flotilla/files/planning_file.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// What is planned for whom.
struct PlanningTask {
  search::PlanRequest request;
  cluster::Profile profile;  ///< knows every type of the pool, lists no devices
  ForecastSettings settings;
};

/// Devices that somebody else than the options found, and what an hour of one is billed there.
struct Offer {
  search::Pool pool;
  std::map<std::string, double> billing;  ///< by device type; a price that the options give goes before
};

/// Of the pool that the options name. Throws Error{usage, bad_input, unavailable}.
PlanningTask planning_task(const PlanningOptions&);
/// Of the devices on offer.
PlanningTask planning_task(const PlanningOptions&, const Offer&);

/// The search, with an eye on the clock: the time limit, and a line on a terminal.
files::Planning search_for(PlanningTask&, const PlanningOptions&);

/// Of a plan that the search found.
simulate::Report forecast_of(const plan::Plan&, const PlanningTask&);

/// Why there is no plan, in one line.
std::string why_none(const files::Planning&, const PlanningOptions&);

}  // namespace flotilla::app
