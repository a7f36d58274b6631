#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "app/validate/validation.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

using published::Comparison;
using published::Statistics;

constexpr int side = 560, margin = 56;  // of the plot, in pixels
constexpr int colours = 12;

std::string escaped(const std::string& words) {
  std::string out;
  for (char c : words) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string number(double value, const char* format = "%.1f") {
  char out[48];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

/// Powers of ten around all measured and forecast times.
struct Decades {
  int low = 0, high = 1;
  explicit Decades(const std::vector<Comparison>& runs) {
    double least = 1e300, most = 0;
    for (const auto& run : runs) {
      if (!run.time_error()) continue;
      least = std::min({least, run.forecast.value, run.run.measured.iteration->value});
      most = std::max({most, run.forecast.value, run.run.measured.iteration->value});
    }
    if (!(most > 0) || !(least > 0)) return;
    low = static_cast<int>(std::floor(std::log10(least)));
    high = std::max(low + 1, static_cast<int>(std::ceil(std::log10(most))));
  }
  double place(double seconds) const { return (std::log10(seconds) - low) / (high - low) * (side - 2 * margin); }
  double x(double seconds) const { return margin + place(seconds); }
  double y(double seconds) const { return side - margin - place(seconds); }
};

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return text("<line class=\"", kind, "\" x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2), "\" y2=\"", number(y2), "\"/>");
}

std::string label(double x, double y, const std::string& words, const char* anchor) {
  return text("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\">", escaped(words), "</text>");
}

std::string axes(const Decades& d) {
  std::string out;
  for (int decade = d.low; decade <= d.high; ++decade) {
    const double seconds = std::pow(10, decade);
    out += line(d.x(seconds), margin, d.x(seconds), side - margin, "grid") + line(margin, d.y(seconds), side - margin, d.y(seconds), "grid");
    const std::string name = number(seconds, "%g") + " s";
    out += label(d.x(seconds), side - margin + 18, name, "middle") + label(margin - 6, d.y(seconds) + 4, name, "end");
  }
  const double low = std::pow(10, d.low), high = std::pow(10, d.high);
  out += line(d.x(low), d.y(low), d.x(high), d.y(high), "equal");
  return out + label(side / 2.0, side - 12, "measured", "middle") + label(margin, margin - 12, "forecast", "middle");
}

std::string points(const Validation& v, const Decades& d, const std::map<std::string, int>& colour) {
  std::string out;
  for (const auto& run : v.runs) {
    if (!run.time_error()) continue;
    const double measured = run.run.measured.iteration->value;
    out += text("<circle class=\"c", colour.at(run.run.source) % colours, "\" cx=\"", number(d.x(measured)), "\" cy=\"",
                number(d.y(run.forecast.value)), "\" r=\"3\"><title>", escaped(run.run.id), ": measured ", number(measured, "%.4g"),
                " s, forecast ", number(run.forecast.value, "%.4g"), " s</title></circle>\n");
  }
  return out;
}

std::string plot(const Validation& v, const std::map<std::string, int>& colour) {
  const Decades d{v.runs};
  return text("<svg role=\"img\" viewBox=\"0 0 ", side, " ", side, "\"><title>Forecast against measured iteration time of ",
              v.all.forecast_runs, " runs; on the line both are equal</title>\n", axes(d), "\n", points(v, d, colour), "</svg>\n");
}

std::string percent(const std::optional<double>& share) { return share ? number(100 * *share) : "&ndash;"; }

std::string row(const Statistics& s, int colour) {
  const std::string mark = colour < 0 ? "" : text("<svg class=\"mark\" viewBox=\"0 0 8 8\"><circle class=\"c", colour % colours,
                                                  "\" cx=\"4\" cy=\"4\" r=\"4\"/></svg> ");
  std::string out = "<tr><td>" + mark + escaped(s.name) + "</td>";
  for (const std::string& cell :
       {text(s.runs), text(s.forecast_runs), percent(s.time_error_mean), percent(s.time_error_median), percent(s.time_error_worst),
        percent(s.time_bias), percent(s.coverage), percent(s.memory_error_mean), percent(s.regret)})
    out += "<td>" + cell + "</td>";
  return out + "</tr>\n";
}

std::string table(const Validation& v, const std::map<std::string, int>& colour) {
  std::string out = "<div class=\"wide\"><table><thead><tr><th>source</th>";
  for (const char* title : {"runs", "forecast", "time error mean, %", "median", "worst", "bias", "within the bar, %", "memory error, %", "regret, %"})
    out += text("<th>", title, "</th>");
  out += "</tr></thead><tbody>\n";
  for (const auto& source : v.sources)
    if (source.forecast_runs > 0) out += row(source, source.time_error_mean ? colour.at(source.name) : -1);
  return out + row(v.all, -1) + "</tbody></table></div>\n";
}

std::string sources_without_forecast(const Validation& v) {
  std::string names;
  for (const auto& source : v.sources)
    if (source.forecast_runs == 0) names += text(names.empty() ? "" : ", ", escaped(source.name), " (", source.runs, ")");
  return names.empty() ? "" : "<p>No run is forecast of " + names + ".</p>\n";
}

constexpr const char* style = R"(<style>
:root { color-scheme: light dark; --ink: #1c2430; --paper: #ffffff; --line: #d5dae1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --paper: #14181e; --line: #39414c; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
svg[role] { width: 100%; max-width: 40rem; } .mark { width: .7em; height: .7em; } text { fill: var(--ink); font-size: 13px; }
.grid { stroke: var(--line); } .equal { stroke: var(--ink); stroke-dasharray: 5 4; } circle { fill-opacity: .65; } .wide { overflow-x: auto; }
table { border-collapse: collapse; } th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
.c0 { fill: #3b75af } .c1 { fill: #ef8636 } .c2 { fill: #519e3e } .c3 { fill: #c53a32 } .c4 { fill: #8d69b8 } .c5 { fill: #84584e }
.c6 { fill: #d57dbe } .c7 { fill: #7f7f7f } .c8 { fill: #b8a900 } .c9 { fill: #58bbcc } .c10 { fill: #2e4a7d } .c11 { fill: #9c1f5f }
</style>
)";

}  // namespace

std::string validation_page(const Validation& v) {
  std::map<std::string, int> colour;
  for (const auto& source : v.sources)
    if (source.time_error_mean) colour.emplace(source.name, static_cast<int>(colour.size()));
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Forecasts of published runs</title>\n";
  out += style;
  out += "</head>\n<body>\n<h1>Forecasts of published runs</h1>\n";
  out += text("<p>", v.all.runs, " runs, ", v.all.forecast_runs, " of them forecast. A point is a run; on the dashed line the forecast equals ",
              "the measurement.</p>\n");
  out += plot(v, colour) + table(v, colour);
  if (!v.not_forecast.empty()) out += "<h2>Not forecast</h2>\n<ul>\n";
  for (const auto& [reason, runs] : v.not_forecast) out += text("<li>", runs, ": ", escaped(reason), "</li>\n");
  if (!v.not_forecast.empty()) out += "</ul>\n";
  out += sources_without_forecast(v);
  return out + "</body>\n</html>\n";
}

}  // namespace flotilla::app
