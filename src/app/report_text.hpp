#pragma once
#include <string>
#include <utility>
#include <vector>

#include "app/table.hpp"
#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// A forecast for people. First what counts: iteration time and its error bar, tokens a second, memory against its limit, cost; where it
/// does not fit, why not. Then where the time of each stage goes, then what its memory holds.
std::string report_text(const simulate::Report&, const Style& = {});

/// Its lines of key and value that need no table: iteration, speed, memory, fits where it does not, cost, billing, energy.
std::vector<std::pair<std::string, std::string>> forecast_lines(const simulate::Report&);

/// "$1.20", "$0.00123", "$1200".
std::string dollars(double usd);
/// "12.3 kJ", "4.56 kWh".
std::string energy(double joules);
/// "12.3 units".
std::string billing(double units);

/// A unit for several figures of which the largest is given: that one has at most four digits before the point.
struct Unit {
  const char* name;
  double scale;
  std::string digits(double value) const;  ///< three of them, without the unit; "-" for nothing
  std::string digits(Seconds time) const { return digits(time.value); }
  std::string digits(Bytes size) const { return digits(static_cast<double>(size.count)); }
};
Unit unit_of(Seconds most);
Unit unit_of(Bytes most);

/// "6 %", "2.4 %": one decimal below ten.
std::string percent(double part);

}  // namespace flotilla::app
