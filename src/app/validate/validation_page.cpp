#include <map>

#include "app/validate/validation.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/page/document.hpp"
#include "flotilla/page/plots.hpp"

namespace flotilla::app {
namespace {

using published::Statistics;

page::ScatterPlot plot_of(const Validation& v) {
  page::ScatterPlot plot;
  plot.caption = {"Forecast against measured iteration time",
                  text("A point is one of ", v.all.forecast_runs, " runs; on the broken line the forecast equals the measurement.")};
  plot.x = {.label = "measured", .quantity = page::Quantity::seconds, .logarithmic = true};
  plot.y = {.label = "forecast", .quantity = page::Quantity::seconds, .logarithmic = true};
  plot.diagonal = true;
  std::map<std::string, std::size_t> groups;
  for (const auto& run : v.runs) {
    if (!run.time_error()) continue;
    const auto [group, is_new] = groups.emplace(run.run.source, plot.groups.size());
    if (is_new) plot.groups.push_back(run.run.source);
    const Seconds measured = *run.run.measured.iteration;
    plot.dots.push_back(
        {{measured.value, run.forecast.value}, group->second, "", text(run.run.id, ": measured ", measured, ", forecast ", run.forecast)});
  }
  return plot;
}

std::vector<std::string> row_of(const Statistics& s) {
  return {s.name,
          text(s.runs),
          text(s.forecast_runs),
          in_percent(s.time_error_mean),
          in_percent(s.time_error_median),
          in_percent(s.time_error_worst),
          in_percent(s.time_bias),
          in_percent(s.coverage),
          in_percent(s.memory_error_mean),
          in_percent(s.regret)};
}

page::Markup sources_table(const Validation& v) {
  std::vector<page::Column> columns{{"source"}};
  for (const char* title :
       {"runs", "forecast", "time error mean, %", "median", "worst", "bias", "within the 90 % bar, %", "memory error, %", "regret, %"})
    columns.push_back({title, true});
  std::vector<std::vector<std::string>> rows;
  for (const auto& source : v.sources)
    if (source.forecast_runs > 0) rows.push_back(row_of(source));
  rows.push_back(row_of(v.all));
  return page::table(columns, rows);
}

page::Markup not_forecast(const Validation& v) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [reason, runs] : v.not_forecast) rows.push_back({text(runs), reason});
  page::Markup out;
  if (!rows.empty()) out += page::table({{"runs", true}, {"because of"}}, rows);
  std::string names;
  for (const auto& source : v.sources)
    if (source.forecast_runs == 0) names += text(names.empty() ? "" : ", ", source.name, " (", source.runs, ")");
  if (!names.empty()) out += page::paragraph("No run is forecast of " + names + ".");
  return out;
}

}  // namespace

std::string validation_page(const Validation& v) {
  const std::string title = "Forecasts of published runs";
  return page::document(title, page::heading(title, text(v.all.runs, " runs, ", v.all.forecast_runs, " of them forecast.")) +
                                   page::figure(plot_of(v)) + sources_table(v) + page::section("Not forecast", not_forecast(v)));
}

}  // namespace flotilla::app
