#include "app/common/report_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "app/common/pool.hpp"
#include "app/common/report_lines.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/simulate/why_not.hpp"

namespace flotilla::app {
namespace {

using simulate::Activity;
using simulate::Report;
using simulate::ReportRow;

/// short_number has no digits behind the point without a prefix.
std::string three_digits(double value) { return value < 100 ? formatted("%.3g", value) : journal::short_number(value); }

constexpr std::array<std::pair<Activity, const char*>, simulate::activity_count> activity_columns{
    {{Activity::forward, "forward"},
     {Activity::backward, "backward"},
     {Activity::recompute, "recompute"},
     {Activity::tensor_collective, "tensor"},
     {Activity::activation_transfer, "transfer"},
     {Activity::gradient_reduction, "reduction"},
     {Activity::optimizer, "optimizer"},
     {Activity::bubble, "bubble"}}};

/// Else the line of devices above the tables says it.
bool several_places(const std::vector<ReportLine>& lines) {
  return std::ranges::any_of(lines, [&](const ReportLine& line) { return line.place != lines.front().place; });
}

/// Columns of what nobody does are left out.
std::string time_table(const Report& report, const std::vector<ReportLine>& lines, const Style& style) {
  const Unit unit = unit_of(report.iteration);
  const bool places = several_places(lines);
  std::vector<TextTable::Column> columns{{text("stage, ", unit.name)}};
  if (places) columns.push_back({"device"});
  columns.push_back({"ranks", Align::right});
  std::vector<Activity> shown;
  for (const auto& [activity, title] : activity_columns) {
    const Activity a = activity;
    if (std::ranges::none_of(lines, [a](const ReportLine& line) { return line.breakdown[a].value > 0; })) continue;
    shown.push_back(a);
    columns.push_back({title, Align::right});
  }
  TextTable table{columns};
  const auto add = [&](const std::string& stage, const std::string& place, int ranks, const simulate::Breakdown& breakdown) {
    std::vector<std::string> row{stage};
    if (places) row.push_back(place);
    row.push_back(text(ranks));
    for (Activity a : shown) row.push_back(unit.digits(breakdown[a]));
    table.add(std::move(row));
  };
  for (const auto& line : lines) add(stages_in_words(line.stages), line.place, line.ranks, line.breakdown);
  if (lines.size() > 1) add("mean", "", report.devices, report.breakdown);
  return table.print(style);
}

std::string memory_table(const Report& report, const std::vector<ReportLine>& lines, const Style& style) {
  const Unit unit = unit_of(report.peak_memory());
  const bool places = several_places(lines);
  std::vector<TextTable::Column> columns{{text("stage, ", unit.name)}};
  if (places) columns.push_back({"device"});
  for (const char* title : {"weights", "grads", "optim.", "activ.", "buffers", "scratch", "process", "peak", "limit"})
    columns.push_back({title, Align::right});
  if (!report.fits()) columns.push_back({"fits"});
  TextTable table{columns};
  for (const auto& line : lines) {
    const auto& memory = line.fullest->memory;
    std::vector<std::string> row{stages_in_words(line.stages)};
    if (places) row.push_back(line.place);
    for (Bytes bytes : memory.categories) row.push_back(unit.digits(bytes));
    row.push_back(unit.digits(memory.runtime_constant));
    row.push_back(unit.digits(memory.peak()));
    row.push_back(line.fullest->limit ? unit.digits(*line.fullest->limit) : "?");
    if (!report.fits()) row.push_back(line.fullest->fits() ? "yes" : "no");
    table.add(std::move(row));
  }
  return table.print(style);
}

/// By a described runtime, whose error bars come from published runs.
bool is_described(const Report& report) { return report.runtime != "flotilla" && report.cost_model == "program"; }

std::string memory_line(const Report& report) {
  const auto& row = *report.fullest();
  const Bytes peak = row.memory.peak();
  std::string line = text(peak, row.limit ? text(" of ", *row.limit) : "", " on the fullest device (stage ", stages_in_words(row.stages),
                          ", ", place_in_words(row.device_type, row.zone), ")");
  if (row.limit && peak <= *row.limit) line += text("; ", *row.limit - peak, " to spare");
  if (report.memory_error > 0)
    line += text("; 99 %: at most ", Bytes{static_cast<std::int64_t>((1 + report.memory_error) * static_cast<double>(peak.count))});
  return line;
}

std::string cost_line(const Report& report) {
  const auto& e = report.expense;
  if (!e.usd()) return "";
  std::string line = text(dollars(*e.usd()), " ", simulate::bar_in_words(report.relative_error), " an iteration");
  if (!e.egress_usd)
    line += ", devices alone: bytes leave a zone without an egress price (--egress FROM:TO=USD/GB)";
  else if (*e.egress_usd > 0)
    line += text(" (devices ", dollars(*e.device_usd), ", egress ", dollars(*e.egress_usd), ")");
  const double in_an_hour = 3600 / report.iteration.value;
  line += text("; ", dollars(*e.usd() * in_an_hour), " an hour");
  // What a limit of an hour of the devices is compared with.
  if (e.egress_usd && *e.egress_usd > 0) line += text(" (devices ", dollars(*e.device_usd * in_an_hour), ")");
  return line;
}

std::string iteration_line(const Report& report) {
  std::string line = text(report.iteration, " ", simulate::bar_in_words(report.relative_error), is_described(report) ? " (90 %: " : " (",
                          report.bar().low(), " to ", report.bar().high(), ")");
  if (report.estimated_share >= 0.005) line += text("; ", percent(report.estimated_share), " of the work estimated, not measured");
  return line;
}

std::string speed_line(const Report& report) {
  std::string line = text(three_digits(report.iterations_per_second()), " iterations/s, ", three_digits(report.tokens_per_second()),
                          " tokens/s, ", three_digits(report.sequences_per_second()), " sequences/s");
  if (report.share_of_peak) line += text(", ", percent(*report.share_of_peak), " MFU");
  return line;
}

/// "32 A100-40 @ zone-a, 32 V100-16".
std::string devices_in_words(const Report& report) {
  std::map<std::string, int> count;
  for (const auto& row : report.rows) count[place_in_words(row.device_type, row.zone)] += row.ranks;
  std::string words;
  for (const auto& [place, devices] : count) words += text(words.empty() ? "" : ", ", devices, " ", place);
  return words;
}

std::string who(const Report& report) {
  return report.cost_model == "program" ? report.runtime : text(report.runtime, ", cost model ", report.cost_model);
}

std::string counted(int count, const char* one) { return text(count, " ", one, count == 1 ? "" : "s"); }

}  // namespace

std::string transports_in_words(const simulate::TransportUses& uses) {
  using cluster::Transport;
  std::string all;
  for (const auto transport : {Transport::nccl, Transport::device_mpi, Transport::host}) {
    const auto& use = uses[static_cast<std::size_t>(transport)];
    if (use.groups + use.pairs == 0) continue;
    std::string who = use.groups > 0 ? counted(use.groups, "group") : "";
    if (use.pairs > 0) who += text(who.empty() ? "" : " and ", counted(use.pairs, "pair"));
    all += text(all.empty() ? "" : "; ", cluster::in_words(transport), " for ", who, " (", use.takes, " a step; ", use.otherwise,
                " otherwise)");
  }
  return all;
}

std::string energy(double joules) {
  if (joules < 1e6) return formatted("%.3g kJ", joules / 1e3);
  return joules < 3.6e9 ? formatted("%.3g kWh", joules / 3.6e6) : formatted("%.3g MWh", joules / 3.6e9);
}

std::string billing(double units) { return text(three_digits(units), " units"); }

std::string dollars(double usd) { return formatted(usd >= 100 ? "$%.0f" : usd >= 0.1 ? "$%.2f" : "$%.3g", usd); }

std::vector<std::pair<std::string, std::string>> forecast_lines(const Report& report) {
  std::vector<std::pair<std::string, std::string>> head{{"iteration", iteration_line(report)}, {"speed", speed_line(report)}};
  if (!report.rows.empty()) head.push_back({"memory", memory_line(report)});
  if (const auto words = transports_in_words(report.transports); !words.empty()) head.push_back({"between GPUs", words});
  if (report.why_not) head.push_back({"fits", simulate::in_words(*report.why_not)});
  if (const auto cost = cost_line(report); !cost.empty()) head.push_back({"cost", cost});
  if (report.expense.billing_units) head.push_back({"billing", text(billing(*report.expense.billing_units), " an iteration")});
  if (report.expense.energy_joules) head.push_back({"energy", text("at most ", energy(*report.expense.energy_joules), " an iteration")});
  return head;
}

std::string report_text(const Report& report, const Style& style) {
  auto head = forecast_lines(report);
  head.push_back({"plan", report.plan});
  head.push_back({"model", text(report.model, ", batch ", report.global_batch, " sequences of ", report.length, " tokens")});
  head.push_back({"devices", devices_in_words(report)});
  head.push_back({"runtime", who(report)});
  const auto lines = lines_of(report);
  return key_values_within(head, table_width) + "\n" + time_table(report, lines, style) + "\n" + memory_table(report, lines, style);
}

}  // namespace flotilla::app
