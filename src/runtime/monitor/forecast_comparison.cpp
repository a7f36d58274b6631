#include "flotilla/monitor/forecast_comparison.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"

namespace flotilla::monitor {
namespace {

constexpr int most_in_a_line = 3;  // activities, so that a line fits a terminal

/// "forward 37.2 / 36.0, backward 47.7 / 50.5 ms": one unit for all.
std::string work_in_words(const simulate::Breakdown& forecast, const simulate::Breakdown& measured) {
  const Seconds most = std::max(forecast.total(), measured.total());
  const Unit unit = unit_of(most);
  std::string words;
  int named = 0;
  for (int a = 0; a < simulate::activity_count; ++a) {
    const auto activity = static_cast<simulate::Activity>(a);
    if (std::max(forecast[activity], measured[activity]).value <= 0.005 * most.value) continue;
    const std::string name = activity == simulate::Activity::bubble ? "waiting" : in_words(activity);
    words += text(named == 0                    ? ""
                  : named % most_in_a_line == 0 ? ",\n"
                                                : ", ",
                  name, " ", unit.digits(forecast[activity]), " / ", unit.digits(measured[activity]));
    ++named;
  }
  return words + " " + unit.name;
}

}  // namespace

std::vector<double> settled(std::span<const double> step_seconds) {
  const std::size_t unsettled = std::min<std::size_t>(2, step_seconds.size() - 1);
  return {step_seconds.begin() + static_cast<std::ptrdiff_t>(unsettled), step_seconds.end()};
}

Seconds median(std::vector<double> seconds) {
  FLOTILLA_ASSERT(!seconds.empty(), "nothing was measured");
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  if (seconds.size() % 2 != 0) return {*middle};
  return {(*middle + *std::max_element(seconds.begin(), middle)) / 2};
}

std::string in_words(const ForecastComparison& c) {
  constexpr std::size_t line_width = 69;  // beside a key, on 80 columns
  std::string words = text(c.forecast, " ", simulate::bar_in_words(c.relative_error), " forecast,");
  auto measured = text(c.measured, " measured");
  if (c.iterations > 0) measured += text(" (median of ", c.iterations, c.iterations == 1 ? " iteration)" : " iterations)");
  words += (words.size() + 1 + measured.size() < line_width ? " " : "\n") + measured;
  words += text(":\n", percent(std::abs(c.deviation())), c.deviation() < 0 ? " below" : " above");
  if (c.forecast_work && c.measured_work) words += "\n" + work_in_words(*c.forecast_work, *c.measured_work);
  return words;
}

}  // namespace flotilla::monitor
