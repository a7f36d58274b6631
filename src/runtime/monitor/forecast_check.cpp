#include "flotilla/monitor/forecast_check.hpp"

#include <algorithm>

namespace flotilla::monitor {
namespace {

std::optional<simulate::Breakdown> work_of(const simulate::Forecast& forecast, Rank rank) {
  const auto kind = std::ranges::find_if(forecast.kinds, [&](const auto& k) { return std::ranges::binary_search(k.ranks, rank); });
  if (forecast.timeline.empty() || kind == forecast.kinds.end()) return std::nullopt;
  std::vector<simulate::Span> spans;
  for (const auto& span : forecast.timeline)
    if (span.rank == kind->ranks.front()) spans.push_back(span);
  return simulate::compute_queue_breakdown(spans, forecast.iteration);
}

/// Of each activity alone.
simulate::Breakdown medians(const std::vector<simulate::Breakdown>& works) {
  simulate::Breakdown all;
  for (std::size_t a = 0; a < all.seconds.size(); ++a) {
    std::vector<double> seconds;
    for (const auto& work : works) seconds.push_back(work.seconds[a].value);
    all.seconds[a] = median(settled(seconds));
  }
  return all;
}

}  // namespace

ForecastCheck::ForecastCheck(const simulate::Forecast& forecast, Rank rank)
    : forecast_{forecast.iteration}, relative_error_{forecast.relative_error}, forecast_work_{work_of(forecast, rank)} {}

std::optional<ForecastComparison> ForecastCheck::add(Seconds took, const std::vector<simulate::Span>& spans) {
  if (!open()) return std::nullopt;
  seconds_.push_back(took.value);
  if (!spans.empty()) works_.push_back(simulate::compute_queue_breakdown(spans, took));
  if (seconds_.size() < iterations) return std::nullopt;
  return comparison();
}

std::optional<ForecastComparison> ForecastCheck::finish() {
  constexpr std::size_t least = 3;
  if (!open() || seconds_.size() < least) return std::nullopt;
  return comparison();
}

ForecastComparison ForecastCheck::comparison() {
  closed_ = true;
  const auto counted = settled(seconds_);
  ForecastComparison c{forecast_, median(counted), relative_error_, counted.size(), {}, {}};
  if (forecast_work_ && works_.size() == seconds_.size()) c.forecast_work = forecast_work_, c.measured_work = medians(works_);
  return c;
}

}  // namespace flotilla::monitor
