#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/simulate/forecast.hpp"

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

}  // namespace flotilla::app
