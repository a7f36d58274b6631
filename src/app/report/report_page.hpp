#pragma once
#include <optional>
#include <string>

#include "app/common/measured_run.hpp"
#include "app/report/report.hpp"
#include "app/report/run_forecast.hpp"
#include "flotilla/journal/metrics.hpp"

namespace flotilla::app {

/// What a page shows beside the report.
struct RunRecords {
  journal::Metrics metrics;
  std::optional<RunForecast> forecast;
  std::string no_forecast;              ///< why not
  std::optional<MeasuredRun> measured;  ///< with a timeline
};

/// A run as one HTML file that needs no other; docs/report.md describes it.
std::string run_report_page(const RunReport&, const RunRecords&);

}  // namespace flotilla::app
