#pragma once
#include <string>

#include "app/common/measured_run.hpp"
#include "flotilla/simulate/forecast.hpp"
#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// The forecast's timeline as a Chrome trace (files/trace.hpp), with the measured one beside it where it is given. One process per device;
/// of more than 64 devices one for each kind, named with how many it stands for.
std::string forecast_trace(const simulate::Forecast&, const simulate::Report&, const MeasuredRun* measured);

}  // namespace flotilla::app
