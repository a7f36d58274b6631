#include "flotilla/search/economics.hpp"

namespace flotilla::search {

RunTotals totals_of(const simulate::Report& one, std::int64_t iterations) {
  constexpr double seconds_in_an_hour = 3600;
  const auto n = static_cast<double>(iterations);
  const auto all = [&](const std::optional<double>& figure) { return figure ? std::optional{*figure * n} : figure; };
  RunTotals totals;
  totals.iterations = iterations;
  totals.tokens = iterations * one.global_batch * one.length;
  totals.time = one.iteration * n, totals.low = one.bar().low() * n, totals.high = one.bar().high() * n;
  totals.device_hours = totals.time.value / seconds_in_an_hour * one.devices;
  totals.usd = all(one.expense.usd());
  totals.billing_units = all(one.expense.billing_units);
  totals.energy_joules = all(one.expense.energy_joules);
  return totals;
}

}  // namespace flotilla::search
