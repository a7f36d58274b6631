#pragma once
#include <string>

#include "flotilla/simulate/forecast.hpp"

namespace flotilla::app {

/// A forecast for people: iteration time with its error bar and where the time goes, peak memory and what holds it. Lines of key and value.
std::string forecast_text(const simulate::Forecast&);

}  // namespace flotilla::app
