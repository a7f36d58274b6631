#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/search/planner.hpp"
#include "flotilla/simulate/report.hpp"

/// What surrounds an answer for a pool: why devices stay idle, what more of them would bring, what less money would cost in time, and what
/// a whole run comes to. All but the last plan again, several times; docs/design/planner.md says how. Requests need a pool, and a
/// forecaster that forecasts programs; errors are those of plan().
namespace flotilla::search {

/// Devices of one type and zone that a plan leaves idle.
struct IdleDevices {
  std::string device_type, zone;
  int devices = 0;                 ///< idle ones
  std::string reason;              ///< one line
  std::optional<RankedPlan> with;  ///< the best plan found that takes one of them more; none: none is allowed
};
/// Of each type and zone of which the plan leaves some idle, the most idle ones first, at most `most`. A request that asks for one of them
/// more is planned each time; where nothing comes of it, once more without limits. Once the request wants to stop, the reason says so.
std::vector<IdleDevices> why_idle(const PlanRequest&, const simulate::Forecaster&, const RankedPlan& best, std::size_t most);

/// The best plan for a pool with another node.
struct OneMoreNode {
  PoolEntry added;  ///< the node: its type, zone and devices
  RankedPlan best;  ///< no worse than without it
};
/// For each type and zone of the pool in its order, at most `most`, until the request wants to stop.
std::vector<OneMoreNode> with_one_more_node(const PlanRequest&, const simulate::Forecaster&, const RankedPlan& best, std::size_t most);

/// Plans of which none is both faster and cheaper than another, the fastest first, at most `points`: the fastest and the cheapest plan that
/// the request's limits allow, the fastest ones within budgets for an iteration between these two, and what was found beside them. Throws
/// Error{bad_input} where a type has no price.
std::vector<RankedPlan> pareto_front(const PlanRequest&, const simulate::Forecaster&, const PlanAnswer&, std::size_t points);

/// What all iterations of a run come to. A figure is absent where the forecast of one lacks it.
struct RunTotals {
  std::int64_t iterations = 0, tokens = 0;
  Seconds time, low, high;  ///< as forecast, and with its error bar
  double device_hours = 0;
  std::optional<double> usd, billing_units, energy_joules;
  bool operator==(const RunTotals&) const = default;
};
RunTotals totals_of(const simulate::Report& iteration, std::int64_t iterations);

}  // namespace flotilla::search
