#pragma once
#include <string>
#include <utility>
#include <vector>

#include "app/common/table.hpp"
#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// A forecast for people. First what counts: iteration time and its error bar, tokens a second, memory against its limit, cost; where it
/// does not fit, why not. Then where the time of each stage goes, then what its memory holds.
std::string report_text(const simulate::Report&, const Style& = {});

/// Its lines of key and value that need no table: iteration, speed, memory, fits where it does not, cost, billing, energy.
std::vector<std::pair<std::string, std::string>> forecast_lines(const simulate::Report&);

/// "NCCL for 2 groups and 4 pairs (1.2 ms a step; 3.4 ms through the hosts' memory)": what was chosen and why; empty: no choice.
std::string transports_in_words(const simulate::TransportUses&);

/// "$1.20", "$0.00123", "$1200".
std::string dollars(double usd);
/// "12.3 kJ", "4.56 kWh".
std::string energy(double joules);
/// "12.3 units".
std::string billing(double units);

}  // namespace flotilla::app
