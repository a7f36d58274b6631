#include "app/common/planning_tables.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "app/common/pool.hpp"
#include "app/common/report_text.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/options/documents.hpp"
#include "flotilla/plan/recompute_modes.hpp"

namespace flotilla::app {

std::string stages_in_words(const plan::Plan& plan) { return text(plan.stages.size(), plan.stages.size() == 1 ? " stage" : " stages"); }

std::string devices_in_words(const plan::Plan& plan, bool zones) {
  std::map<std::string, std::int64_t> devices;
  for (const auto& [place, count] : devices_by_place(plan)) devices[zones ? place_in_words(place.type, place.zone) : place.type] += count;
  std::vector<std::string> parts;
  for (const auto& [place, count] : devices) parts.push_back(text(count, " ", place));
  return joined(parts, " + ");
}

bool several_zones(const search::Pool& pool) {
  return std::ranges::any_of(pool, [&](const auto& entry) { return entry.zone != pool.front().zone; });
}

std::string options_in_words(const plan::Plan& plan, const plan::Plan& best) {
  std::string words;
  if (plan.schedule != best.schedule) words += ", " + plan::to_string(plan.schedule);
  if (plan.sequence_parallel != best.sequence_parallel) words += plan.sequence_parallel ? ", sequence parallel" : ", not sequence parallel";
  if (plan.shard_optimizer != best.shard_optimizer) words += plan.shard_optimizer ? ", sharded optimizer" : ", unsharded optimizer";
  const auto modes = plan::recompute_modes(plan);
  if (modes == plan::recompute_modes(best)) return words;
  std::vector<std::string> names;
  for (const auto mode : modes) names.push_back(plan::to_string(mode));
  return words + ", recompute " + joined(names, " and ");
}

namespace {

/// Notes that go below a row, a line or more each.
std::string notes_in_lines(const std::vector<std::string>& notes, int width) {
  std::string lines;
  for (const auto& note : notes)
    if (!note.empty()) lines += (lines.empty() ? "" : "\n  ") + options::wrap(note, 2, width - 2);
  return lines;
}

/// Devices are named where they are others than the best plan's; why a plan lost may take a line of its own.
std::string alternatives_table(const files::Planning& planning, const Style& style, int width) {
  const auto& all = planning.answer.alternatives;
  const bool priced = std::ranges::any_of(all, [](const auto& plan) { return plan.usd.has_value(); });
  std::vector<TextTable::Column> columns{{"next best"}, {"iteration", Align::right}};
  if (priced) columns.push_back({"cost", Align::right});
  const auto goal = planning.objective.goal;
  const bool counted = goal == search::Goal::billing || goal == search::Goal::energy;
  if (counted) columns.push_back({search::to_string(goal), Align::right});
  columns.push_back({"memory", Align::right});
  TextTable table{columns};
  const auto& best = planning.answer.best->plan;
  for (const auto& plan : all) {
    std::vector<std::string> row{stages_in_words(plan.plan) + options_in_words(plan.plan, best), to_string(plan.iteration)};
    if (priced) row.push_back(plan.usd ? dollars(*plan.usd) : "?");
    if (counted) row.push_back(goal == search::Goal::energy ? energy(plan.value) : billing(plan.value));
    row.push_back(to_string(plan.peak_memory));
    const bool same = devices_by_place(plan.plan) == devices_by_place(best);
    table.add(std::move(row), notes_in_lines({same ? "" : "on " + devices_in_words(plan.plan, several_zones(planning.pool)),
                                              plan.reason + (plan.within_error ? "; equal within the forecast's error" : "")},
                                             width));
  }
  return table.print(style);
}

std::string idle_table(const std::vector<search::IdleDevices>& all, const Style& style, int width) {
  TextTable table{{{"idle devices"}}};
  for (const auto& idle : all) {
    table.add({text(idle.devices, " ", place_in_words(idle.device_type, idle.zone))}, notes_in_lines({idle.reason}, width));
  }
  return table.print(style);
}

/// "-4.2 %"; "-" where there is no difference.
std::string change_in_words(double ratio) { return std::abs(ratio) < 5e-4 ? "-" : (ratio > 0 ? "+" : "") + percent(ratio); }

std::string run_dollars(double usd) { return formatted(std::abs(usd) >= 10 ? "%.0f" : "%.2f", std::abs(usd)); }

/// Money that a whole run costs more or less: "+$120".
std::string more_dollars(double usd) { return std::abs(usd) < 0.005 ? "-" : text(usd > 0 ? "+$" : "-$", run_dollars(usd)); }

std::string one_more_table(const files::Planning& planning, const Style& style) {
  const auto& all = *planning.one_more_node;
  const auto& best = *planning.answer.best;
  const bool priced = best.usd && std::ranges::all_of(all, [](const auto& more) { return more.best.usd.has_value(); });
  std::vector<TextTable::Column> columns{{"one more node"}, {"iteration", Align::right}, {"change", Align::right}};
  if (priced) columns.push_back({"cost", Align::right});
  if (planning.run) columns.push_back({"run", Align::right});
  if (planning.run && priced) columns.push_back({"run's cost", Align::right});
  TextTable table{columns};
  for (const auto& more : all) {
    const double slower = more.best.iteration / best.iteration - 1;
    std::vector<std::string> row{text(more.added.count, " ", place_in_words(more.added.device_type, more.added.zone)),
                                 to_string(more.best.iteration), change_in_words(slower)};
    if (priced) row.push_back(change_in_words(*more.best.usd / *best.usd - 1));
    const auto iterations = planning.run ? static_cast<double>(planning.run->iterations) : 0;
    const Seconds saved = (best.iteration - more.best.iteration) * iterations;
    if (planning.run) row.push_back(std::abs(slower) < 5e-4 ? "-" : text(saved.value > 0 ? "-" : "+", Seconds{std::abs(saved.value)}));
    if (planning.run && priced) row.push_back(more_dollars((*more.best.usd - *best.usd) * iterations));
    table.add(std::move(row));
  }
  return table.print(style);
}

std::string pareto_table(const files::Planning& planning, const Style& style, int width) {
  std::vector<TextTable::Column> columns{
      {"time against cost"}, {"iteration", Align::right}, {"cost", Align::right}, {"an hour", Align::right}};
  if (planning.run)
    for (const char* title : {"run", "run's cost"}) columns.push_back({title, Align::right});
  TextTable table{columns};
  for (const auto& point : *planning.pareto) {
    const bool is_answer = point.plan == planning.answer.best->plan;
    std::vector<std::string> row{stages_in_words(point.plan) + (is_answer ? " (this plan)" : ""), to_string(point.iteration),
                                 dollars(*point.usd), dollars(*point.usd / point.iteration.value * 3600)};
    if (planning.run) {
      const auto iterations = static_cast<double>(planning.run->iterations);
      row.push_back(to_string(point.iteration * iterations));
      row.push_back(dollars(*point.usd * iterations));
    }
    table.add(std::move(row), notes_in_lines({"on " + devices_in_words(point.plan, several_zones(planning.pool))}, width));
  }
  return table.print(style);
}

}  // namespace

std::string planning_tables(const files::Planning& planning, const Style& style, int width) {
  std::string out;
  if (!planning.answer.alternatives.empty()) out += "\n" + alternatives_table(planning, style, width);
  if (planning.idle && !planning.idle->empty()) out += "\n" + idle_table(*planning.idle, style, width);
  if (planning.one_more_node && !planning.one_more_node->empty()) out += "\n" + one_more_table(planning, style);
  if (planning.pareto && !planning.pareto->empty()) out += "\n" + pareto_table(planning, style, width);
  return out;
}

}  // namespace flotilla::app
