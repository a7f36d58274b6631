#pragma once
#include "app/common/measured_run.hpp"
#include "flotilla/page/plots.hpp"
#include "flotilla/simulate/forecast.hpp"
#include "flotilla/simulate/report.hpp"

/// A forecast as pictures.
namespace flotilla::app {

/// Where the time of each stage goes, and what its fullest device holds.
page::BarChart time_chart(const simulate::Report&);
page::BarChart memory_chart(const simulate::Report&);

/// One iteration as it would run, kind of rank by kind; the forecast has its timeline.
page::Gantt forecast_gantt(const simulate::Forecast&, const simulate::Report&);
/// The last iteration of a run as it ran, rank by rank.
page::Gantt measured_gantt(const MeasuredRun&);

}  // namespace flotilla::app
