#pragma once
#include <optional>

#include "flotilla/search/planner.hpp"
#include "flotilla/simulate/forecast.hpp"

/// Plans with their forecasts, whoever made them.
namespace flotilla::search {

/// A plan that was forecast.
struct Evaluated {
  plan::Plan plan;
  simulate::Forecast forecast;
  double value = 0;  ///< of the objective
  int devices = 0;
  int stage = 0;  ///< of the device with the least memory to spare
  Rank tightest;  ///< that device
  Bytes needed, limit;
  simulate::MemoryForecast memory;  ///< of that device
  Bytes excess() const { return needed - limit; }
  bool fits() const { return excess().count <= 0; }
};

/// Of a forecast plan; `limit_of` gives the bytes that a device may use, nothing where nobody knows. Where a price is missing that the goal
/// counts in, the value is infinite.
Evaluated evaluated(plan::Plan, simulate::Forecast, Goal, const std::function<std::optional<Bytes>(Rank)>& limit_of);

/// As an answer tells it.
RankedPlan ranked(const Evaluated&);

/// What one iteration comes to in the objective's unit; nothing where a price is missing.
std::optional<double> value_of(Seconds iteration, const simulate::Expense&, Goal);
/// Times the limit that is most broken; at most 1: the iteration keeps all of them.
double over_limits(Seconds iteration, const simulate::Expense&, int devices, const Limits&);

}  // namespace flotilla::search
