#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/common/forecasting.hpp"
#include "app/common/planning_options.hpp"
#include "flotilla/base/time_shares.hpp"
#include "flotilla/files/planning_file.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// What is planned for whom.
struct PlanningTask {
  search::PlanRequest request;
  cluster::Profile profile;  ///< knows every type of the pool, lists no devices
  ForecastSettings settings;
  AssumedNetworks assumed;
  std::int64_t iterations = 0;                 ///< of the run; 0: not known
  std::optional<Precision> other_precision{};  ///< that may be better than the request's
  std::shared_ptr<TimeShares> time{};          ///< --search.time-limit for all searches of the command; nullptr: there is none
  /// For the next search; 0: there is no limit.
  Seconds next_limit() const;
};

/// Devices that somebody else than the options found, and what an hour of one is billed there.
struct Offer {
  search::Pool pool;
  std::map<cluster::TypeInZone, double> billing;  ///< a price that the options give goes before
  bool one_cluster = true;                        ///< its zones are partitions of one cluster: they share its network
};

/// Of the pool that the options name. Throws Error{usage, bad_input, unavailable}.
PlanningTask planning_task(const PlanningOptions&);
/// Of the devices on offer.
PlanningTask planning_task(const PlanningOptions&, const Offer&);

/// The search, with an eye on the clock: its part of the time limit, and a line on a terminal. Where another precision may be better, one
/// search for each; the task becomes that of the better plan.
files::Planning search_for(PlanningTask&);

/// Of a plan that the search found.
simulate::Report forecast_of(const plan::Plan&, const PlanningTask&);

/// Why there is no plan, in one line.
std::string why_none(const files::Planning&, const PlanningOptions&);

}  // namespace flotilla::app
