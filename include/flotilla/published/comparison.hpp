#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/published/express.hpp"

namespace flotilla::published {

/// A run beside its forecast.
struct Comparison {
  Run run;
  std::string reason;  ///< why there is no forecast; empty: there is one
  std::string plan, runtime;
  Seconds forecast;
  double relative_error = 0;       ///< the forecast's error bar, of 90 %
  double memory_bar = 0;           ///< 99 in 100 devices take at most memory x (1 + this)
  std::optional<Bytes> memory;     ///< forecast of what the run measured
  bool fits = true;                ///< by the forecast
  std::string configuration = {};  ///< equal for runs of one model, batch and cluster, whatever their plans

  bool is_forecast() const { return reason.empty(); }
  /// Forecast over measured, less 1; nothing where one of them is missing.
  std::optional<double> time_error() const;
  std::optional<double> memory_error() const;
  /// Whether the measured time is within the error bar.
  bool is_covered() const;
  /// Whether the measured memory is at most what is forecast with 99 %; nothing where one of them is missing.
  std::optional<bool> memory_is_covered() const;
};

/// The forecast by the run's own runtime, devices from the catalogue. `adjust` may change the runtime's description, to see what one of its
/// figures is worth.
Comparison compare(const Run&, const cluster::Catalogue&, const std::function<void(program::LayerRuntime&)>& adjust = {});

/// Figures of runs that have something in common. Absent where no run has what they are made of.
struct Statistics {
  std::string name;
  int runs = 0, forecast_runs = 0;
  std::optional<double> time_error_mean, time_error_median, time_error_worst, time_bias;  ///< of |forecast / measured - 1|; bias: signed
  std::optional<double> memory_error_mean, memory_bias;
  std::optional<double> coverage;         ///< share of the measured times within the error bar of 90 %
  std::optional<double> memory_coverage;  ///< share of the measured memory that is at most what is forecast with 99 %
  int out_of_memory = 0;                  ///< runs that went out of memory and were forecast
  int out_of_memory_called = 0;           ///< of these
  int out_of_memory_false = 0;            ///< runs that went well, though the forecast says that they do not fit
  /// Of configurations with three measured plans or more: time of the plan with the best forecast over the best one's, less 1, in the mean.
  std::optional<double> regret;
};
Statistics statistics(std::string name, const std::vector<const Comparison*>&);

}  // namespace flotilla::published
