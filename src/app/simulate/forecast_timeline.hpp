#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/simulate/forecast.hpp"
#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// What a run left: a step of some of its ranks, and how long its steps took.
struct MeasuredRun {
  std::vector<std::pair<int, std::string>> processes;  ///< rank and name
  std::vector<simulate::Span> spans;                   ///< of the last step
  std::optional<Seconds> iteration;                    ///< median of the steps after the first two; absent without metrics
  std::size_t iterations = 0;                          ///< that the median is of
};

/// A run directory (its metrics.jsonl, and timeline.json where there is one) or a file that --report.timeline wrote. Throws
/// Error{bad_input} naming file and place.
MeasuredRun read_measured_run(const std::filesystem::path&);

/// The forecast's timeline as a Chrome trace (files/trace.hpp), with the measured one beside it where it is given. One process per device;
/// of more than 64 devices one for each kind, named with how many it stands for.
std::string forecast_trace(const simulate::Forecast&, const simulate::Report&, const MeasuredRun* measured);

}  // namespace flotilla::app
