#pragma once
#include <optional>
#include <vector>

#include "flotilla/monitor/forecast_comparison.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::monitor {

/// Holds the first 20 iterations of a run against its forecast, once.
class ForecastCheck {
 public:
  static constexpr std::size_t iterations = 20;

  ForecastCheck() = default;  ///< without a forecast: nothing to check
  /// `rank`: whose compute queue is compared by activity; the forecast needs its timeline for that.
  ForecastCheck(const simulate::Forecast&, Rank rank);

  /// Whether more iterations are wanted.
  bool open() const { return forecast_.value > 0 && seconds_.size() < iterations && !closed_; }
  /// One iteration and what this rank did in it. With the last one that is wanted comes the comparison.
  std::optional<ForecastComparison> add(Seconds took, const std::vector<simulate::Span>&);
  /// Of a run that ends before: what there is, at least three iterations.
  std::optional<ForecastComparison> finish();

 private:
  ForecastComparison comparison();

  Seconds forecast_;
  double relative_error_ = 0;
  std::optional<simulate::Breakdown> forecast_work_;
  std::vector<double> seconds_;
  std::vector<simulate::Breakdown> works_;
  bool closed_ = false;
};

}  // namespace flotilla::monitor
