#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/simulate/forecast.hpp"

namespace flotilla::monitor {

/// Steps that count as measured: without the first two (memory is touched, connections are made) where there are more.
std::vector<double> settled(std::span<const double> step_seconds);
/// Of at least one.
Seconds median(std::vector<double> seconds);

/// What was forecast and what was measured.
struct ForecastComparison {
  Seconds forecast, measured;
  double relative_error = 0;   ///< the forecast's error bar
  std::size_t iterations = 0;  ///< that were measured
  /// Of the same compute queues (simulate::compute_queue_breakdown); absent where it was not recorded.
  std::optional<simulate::Breakdown> forecast_work, measured_work;

  double deviation() const { return forecast.value > 0 ? measured / forecast - 1 : 0; }
  bool inside_error_bar() const { return simulate::ErrorBar{forecast, relative_error}.holds(measured); }
};

/// "71.3 ms +- 6 % forecast, 73.0 ms measured (median of 18 iterations): 2.4 % above", then, where both are known, what the compute queues
/// did: "forward 24.1 / 25.0, waiting 3.0 / 4.2 ms".
std::string in_words(const ForecastComparison&);

}  // namespace flotilla::monitor
