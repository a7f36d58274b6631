#include "app/bench/bench_load.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "app/common/table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/options/documents.hpp"
#include "flotilla/page/document.hpp"
#include "flotilla/page/plots.hpp"

namespace flotilla::app {
namespace {

using bench::CardEntry;
using bench::NodeReport;
using bench::Soak;
using page::Markup;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t most_nodes_drawn = 12, refused_row = 4;

/// "12.3 k"; nothing where it is not known.
std::string rate(double value) {
  if (value <= 0) return "";
  auto words = bench::value_in_words(value, "");
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

template <class Body>
void for_each_entry(const bench::BenchReport& report, Body body) {
  for (const auto& node : report.nodes)
    for (const auto& entry : node.card) body(node, entry);
}

std::string difference(const CardEntry& entry) {
  if (entry.forecast <= 0) return "";
  const double beyond = bench::beyond_forecast(entry);
  return text(beyond < 0 ? "-" : "+", percent(std::abs(beyond)));
}

void add_once(std::vector<std::string>& lines, const std::string& line) {
  if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
}

std::string how_trained(const NodeReport& node, const CardEntry& e) {
  return text(e.model, " on ", node.host, ": ", e.precision, ", ", e.batch, " sequences of ", e.length, " tokens, ", e.ranks,
              e.ranks == 1 ? " process" : " processes", ", median of ", e.steps, " steps");
}

std::string plan_remark(const NodeReport& node, const CardEntry& e) { return text("plan of ", e.model, " on ", node.host, ": ", e.plan); }

std::string power_remark(const NodeReport& node, const CardEntry& e) {
  if (e.watts > 0) return text(node.host, ": energy of ", e.power, formatted(", %.0f W", e.watts), " training ", e.model);
  return text(node.host, ": energy is not known: ", e.power);
}

std::string counted_or_unknown(const std::optional<std::int64_t>& count) { return count ? text(*count) : "not known"; }

std::string memory_errors(const std::optional<std::int64_t>& corrected, const std::optional<std::int64_t>& uncorrected) {
  if (!corrected && !uncorrected) return "not known";
  return text(corrected.value_or(0), " corrected, ", uncorrected.value_or(0), " not");
}

double hottest(const Soak& soak) {
  double most = 0;
  for (const auto& window : soak.windows) most = std::max(most, window.temperature);
  return most;
}

std::string drift_in_words(const Soak& soak, bench::SoakedDevice device) {
  const auto drift = bench::drift_of(soak, device);
  if (!drift) return soak.windows.size() < 25 ? "too short" : "busy, not judged";
  return text(drift->longer < 0 ? "-" : "+", percent(std::abs(drift->longer)));
}

double worst_drift(const Soak& soak) {
  double worst = 0;
  for (const auto device : {bench::SoakedDevice::hardware_threads, bench::SoakedDevice::gpus})
    if (const auto drift = bench::drift_of(soak, device)) worst = std::max(worst, drift->longer);
  return worst;
}

/// What GPUs say, beside what the kernel says of the rest.
std::string with_gpus(const Soak& soak, const std::string& rest, const std::string& of_gpus) {
  return soak.gpus == 0 ? rest : text(rest, "; GPUs ", of_gpus);
}

/// Nodes with a soak, those first of which most is to be said.
std::vector<const NodeReport*> soaked(const bench::BenchReport& report) {
  std::vector<const NodeReport*> nodes;
  for (const auto& node : report.nodes)
    if (node.soak) nodes.push_back(&node);
  std::ranges::stable_sort(nodes, std::ranges::greater{}, [](const NodeReport* node) {
    return std::pair{node->soak->wrong_steps, worst_drift(*node->soak)};
  });
  return nodes;
}

/// A line for each node of what `value` says of its windows; without lines where nothing is known.
template <class Value>
page::LinePlot soak_plot(const bench::BenchReport& report, page::Caption caption, page::PlotAxis axis, Value value) {
  page::LinePlot plot{std::move(caption), {"time", page::Quantity::seconds, false, true}, std::move(axis), {}, {}};
  constexpr page::Colour colours[]{page::Colour::blue, page::Colour::orange, page::Colour::green, page::Colour::vermillion};
  for (const auto* node : soaked(report)) {
    if (plot.lines.size() == most_nodes_drawn) break;
    page::Line line{node->host, {}, colours[plot.lines.size() % std::size(colours)]};
    for (const auto& window : node->soak->windows)
      if (const double y = value(window); y > 0) line.points.push_back({window.at.value, y});
    if (!line.points.empty()) plot.lines.push_back(std::move(line));
  }
  return plot;
}

/// Measured and forecast, type below type, a chart for each model.
std::vector<page::BarChart> card_charts(const bench::BenchReport& report) {
  std::map<std::string, page::BarChart> charts;
  for_each_entry(report, [&](const NodeReport& node, const CardEntry& entry) {
    if (!entry.refusal.empty()) return;
    auto& chart = charts[entry.model];
    chart.rows.push_back({text(node.type, ", measured"), {entry.tokens_per_second, 0}, {}});
    chart.rows.push_back({text(node.type, ", forecast"), {0, entry.forecast}, {}});
  });
  std::vector<page::BarChart> all;
  for (auto& [model, chart] : charts) {
    chart.caption = {text("Training ", model),
                     text("Tokens a second of ", model, " on one node of every type, measured, and forecast by the simulator.")};
    chart.x = {"rate", page::Quantity::number, false, true, "tokens/s"};
    chart.parts = {{page::Colour::blue, "measured"}, {page::Colour::grey, "forecast"}};
    all.push_back(std::move(chart));
  }
  return all;
}

}  // namespace

Rows card_rows(const bench::BenchReport& report) {
  Rows rows;
  for_each_entry(report, [&](const NodeReport& node, const CardEntry& e) {
    if (!e.refusal.empty()) return rows.push_back({e.model, node.type, node.host, e.refusal});
    rows.push_back({e.model, node.type, node.host, rate(e.tokens_per_second), rate(e.forecast), difference(e),
                    rate(bench::tokens_per_joule(e)), rate(bench::tokens_per_billed_unit(e)), to_string(e.memory_left)});
  });
  std::ranges::stable_sort(rows, {}, [](const auto& row) { return row[0]; });
  return rows;
}

std::vector<std::string> card_remarks(const bench::BenchReport& report) {
  std::vector<std::string> lines;
  for_each_entry(report, [&](const NodeReport& node, const CardEntry& e) {
    if (!e.refusal.empty()) return;
    add_once(lines, how_trained(node, e));
    add_once(lines, plan_remark(node, e));
  });
  for_each_entry(report, [&](const NodeReport& node, const CardEntry& e) {
    if (!e.refusal.empty()) return;
    add_once(lines, power_remark(node, e));
    if (e.billing > 0)
      add_once(lines, text(node.host, ": Slurm bills ", rate(e.billing), " units an hour"));
    else
      add_once(lines, text(node.host, ": billed units are not known: ", e.billing_unknown));
    if (bench::busy(node)) add_once(lines, text(node.host, ": other programs used it, too; its rates are not its best"));
  });
  return lines;
}

Rows soak_rows(const bench::BenchReport& report) {
  Rows rows;
  for (const auto* node : soaked(report)) {
    const auto& s = *node->soak;
    const double heat = hottest(s);
    rows.push_back({node->host, text(s.lasted, " of ", s.wanted), s.ended, text(s.steps), text(s.wrong_steps),
                    with_gpus(s, drift_in_words(s, bench::SoakedDevice::hardware_threads), drift_in_words(s, bench::SoakedDevice::gpus)),
                    heat > 0 ? formatted("%.0f C", heat) : "not known",
                    with_gpus(s, counted_or_unknown(s.throttled), counted_or_unknown(s.gpu_throttled)),
                    with_gpus(s, memory_errors(s.corrected, s.uncorrected), memory_errors(s.gpu_corrected, s.gpu_uncorrected))});
  }
  return rows;
}

std::string card_text(const bench::BenchReport& report, int width) {
  TextTable table{{{"model"},
                   {"type"},
                   {"on"},
                   {"tokens/s", Align::right},
                   {"forecast", Align::right},
                   {"differs", Align::right},
                   {"tokens/J", Align::right},
                   {"tokens/unit", Align::right},
                   {"memory left", Align::right}}};
  for (auto row : card_rows(report)) {
    for (auto& cell : row) cell = printable(cell);
    if (row.size() == refused_row)
      table.add({row[0], row[1], row[2]}, row[3]);
    else
      table.add(row);
  }
  if (table.empty()) return "";
  std::string out = table.print(output_style());
  for (const auto& line : card_remarks(report)) out += options::wrap(printable(line), 2, width) + "\n";
  return out + "\n";
}

std::string soak_text(const bench::BenchReport& report) {
  TextTable table{{{"soak"},
                   {"lasted"},
                   {"ended by"},
                   {"steps", Align::right},
                   {"wrong", Align::right},
                   {"drift", Align::right},
                   {"hottest", Align::right},
                   {"throttled", Align::right},
                   {"memory errors"}}};
  for (auto row : soak_rows(report)) {
    for (auto& cell : row) cell = printable(cell);
    table.add(row);
  }
  return table.empty() ? "" : table.print(output_style()) + "\n";
}

Markup card_markup(const bench::BenchReport& report) {
  auto rows = card_rows(report);
  if (rows.empty()) return {};
  Markup out;
  for (const auto& chart : card_charts(report)) out += page::figure(chart);
  for (const auto& row : rows)
    if (row.size() == refused_row) out += page::paragraph(text(row[0], " was not trained on ", row[2], ", ", row[1], ": ", row[3]));
  std::erase_if(rows, [](const auto& row) { return row.size() == refused_row; });
  out += page::table({{"model"},
                      {"type"},
                      {"node"},
                      {"tokens/s", true},
                      {"forecast", true},
                      {"differs", true},
                      {"tokens/J", true},
                      {"tokens/billed unit", true},
                      {"memory left", true}},
                     rows);
  std::vector<std::vector<std::string>> remarks;
  for (const auto& line : card_remarks(report)) remarks.push_back({line});
  return out + page::folded("How it was measured", page::table({{"remark"}}, remarks));
}

Markup soak_markup(const bench::BenchReport& report) {
  const auto rows = soak_rows(report);
  if (rows.empty()) return {};
  Markup out = page::table({{"node"},
                            {"lasted"},
                            {"ended by"},
                            {"steps", true},
                            {"wrong", true},
                            {"drift", true},
                            {"hottest", true},
                            {"throttled", true},
                            {"memory errors"}},
                           rows);
  const auto steps = soak_plot(report, {"A step while it lasted", "Processor time of the known-answer step, median of each window."},
                               {"step", page::Quantity::seconds, false, true}, [](const auto& window) { return window.step.value; });
  const auto gpu_steps =
      soak_plot(report, {"A step of GPUs while it lasted", "Time of the step that keeps a GPU at work, median of each window."},
                {"step", page::Quantity::seconds, false, true}, [](const auto& window) { return window.gpu_step.value; });
  const auto heat =
      soak_plot(report, {"Temperature while it lasted", "Of the hottest processor or GPU of each node."},
                {"temperature", page::Quantity::number, false, false, "C"}, [](const auto& window) { return window.temperature; });
  for (const auto* plot : {&steps, &gpu_steps, &heat})
    if (!plot->lines.empty()) out += page::figure(*plot);
  if (rows.size() > most_nodes_drawn)
    out += page::paragraph(text("The plots show ", most_nodes_drawn, " of ", rows.size(), " nodes: those whose steps changed most."));
  return out;
}

}  // namespace flotilla::app
