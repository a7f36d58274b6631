#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/forecast.hpp"
#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// The plan of a run's newest checkpoint, forecast with the profile that stands beside it.
struct RunForecast {
  plan::Plan plan;
  simulate::Forecast forecast;  ///< with its timeline
  simulate::Report report;
};

/// Nothing where that cannot be had, and then `why`: no checkpoint, a profile that lacks what the plan needs.
std::optional<RunForecast> forecast_of_run(const std::filesystem::path& run, std::string& why);

}  // namespace flotilla::app
