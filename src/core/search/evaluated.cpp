#include "evaluated.hpp"

#include <limits>

#include "flotilla/simulate/why_not.hpp"

namespace flotilla::search {

Evaluated evaluated(plan::Plan plan, simulate::Forecast forecast, Goal goal, const std::function<std::optional<Bytes>(Rank)>& limit_of) {
  Evaluated out;
  out.value = value_of(forecast.iteration, forecast.expense, goal).value_or(std::numeric_limits<double>::infinity());
  out.devices = plan::rank_count(plan);
  if (const auto found = simulate::tightest(forecast, limit_of))
    out.stage = found->stage, out.tightest = found->rank, out.needed = found->needed, out.limit = found->limit, out.memory = found->memory;
  out.forecast = std::move(forecast);
  out.plan = std::move(plan);
  return out;
}

RankedPlan ranked(const Evaluated& from) {
  RankedPlan out;
  out.plan = from.plan;
  out.iteration = from.forecast.iteration;
  out.value = from.value;
  out.usd = from.forecast.expense.usd();
  out.devices = from.devices;
  out.peak_memory = from.forecast.peak_memory();
  out.relative_error = from.forecast.relative_error;
  out.fits = from.fits();
  return out;
}

std::optional<double> value_of(Seconds iteration, const simulate::Expense& expense, Goal goal) {
  switch (goal) {
    case Goal::throughput: return iteration.value;
    case Goal::cost: return expense.usd();
    case Goal::billing: return expense.billing_units;
    case Goal::energy: return expense.energy_joules;
  }
  return std::nullopt;
}

double over_limits(Seconds iteration, const simulate::Expense& expense, int devices, const Limits& limits) {
  constexpr double seconds_in_an_hour = 3600, unknown = 1e300;
  const double seconds = iteration.value;
  const auto usd = expense.usd(), of_devices = expense.device_usd;
  double most = 0;
  if (limits.iterations_per_second) most = std::max(most, seconds * *limits.iterations_per_second);
  if (limits.devices) most = std::max(most, devices / static_cast<double>(*limits.devices));
  if (limits.usd_per_iteration) most = std::max(most, usd ? *usd / *limits.usd_per_iteration : unknown);
  if (limits.usd_per_hour) most = std::max(most, of_devices ? *of_devices / seconds * seconds_in_an_hour / *limits.usd_per_hour : unknown);
  return most;
}

}  // namespace flotilla::search
