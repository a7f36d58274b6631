#include "app/common/planning_page.hpp"

#include <algorithm>

#include "app/common/forecast_figures.hpp"
#include "app/common/plan_drawing.hpp"
#include "app/common/planning_tables.hpp"
#include "app/common/planning_text.hpp"
#include "app/common/pool.hpp"
#include "app/common/report_text.hpp"
#include "app/common/stage_table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/page/document.hpp"
#include "flotilla/simulate/why_not.hpp"

namespace flotilla::app {
namespace {

using page::Markup;
using search::RankedPlan;

Markup tiles_of(const simulate::Report& forecast) {
  std::vector<page::Tile> tiles{{"an iteration", to_string(forecast.iteration), simulate::bar_in_words(forecast.relative_error)},
                                {"tokens/s", journal::short_number(forecast.tokens_per_second()),
                                 forecast.share_of_peak ? text("MFU ", percent(*forecast.share_of_peak)) : ""},
                                {"devices", text(forecast.devices), ""}};
  if (const auto* row = forecast.fullest())
    tiles.push_back({"memory of the fullest device", to_string(row->memory.peak()), row->limit ? text("of ", *row->limit) : ""});
  if (const auto usd = forecast.expense.usd())
    tiles.push_back({"cost", dollars(*usd / forecast.iteration.value * 3600) + "/h", dollars(*usd) + " an iteration"});
  return page::tiles(tiles);
}

/// What a plan's point stands at: its price where every plan of the plot has one, else its devices.
struct Cost {
  bool in_dollars = true;
  double of(const RankedPlan& plan) const { return in_dollars ? *plan.usd : plan.devices; }
};

std::vector<const RankedPlan*> candidates(const files::Planning& planning) {
  std::vector<const RankedPlan*> all{&*planning.answer.best};
  for (const auto& plan : planning.answer.alternatives) all.push_back(&plan);
  if (planning.pareto)
    for (const auto& plan : *planning.pareto)
      if (plan.plan != planning.answer.best->plan) all.push_back(&plan);
  return all;
}

std::string detail_of(const RankedPlan& plan, const files::Planning& planning) {
  const std::string cost = plan.usd ? ", " + dollars(*plan.usd) + " an iteration" : "";
  return text(stages_in_words(plan.plan), options_in_words(plan.plan, planning.answer.best->plan), " on ",
              devices_in_words(plan.plan, several_zones(planning.pool)), ": ", plan.iteration, cost,
              plan.reason.empty() ? "" : "; " + plan.reason);
}

page::ScatterPlot alternatives_plot(const files::Planning& planning) {
  const auto all = candidates(planning);
  const Cost cost{std::ranges::all_of(all, [](const RankedPlan* plan) { return plan->usd.has_value(); })};
  page::ScatterPlot plot;
  plot.caption = {"Time against cost", text("Further left is faster, further down is cheaper. ",
                                            planning.pareto ? "The line joins plans of which none is both faster and cheaper than another."
                                                            : "--pareto adds the plans between the fastest and the cheapest.")};
  plot.x = {.label = "iteration", .quantity = page::Quantity::seconds};
  plot.y = cost.in_dollars ? page::PlotAxis{.label = "cost of an iteration", .unit = "$"}
                           : page::PlotAxis{.label = "devices", .from_zero = true};
  plot.groups = {"this plan", "next best"};
  if (planning.pareto) plot.groups.emplace_back("time against cost");
  const auto next = planning.answer.alternatives.size();
  for (std::size_t i = 0; i < all.size(); ++i)
    plot.dots.push_back({{all[i]->iteration.value, cost.of(*all[i])},
                         i == 0      ? 0u
                         : i <= next ? 1u
                                     : 2u,
                         i == 0 ? "this plan" : "",
                         detail_of(*all[i], planning),
                         i == 0});
  if (planning.pareto && cost.in_dollars)
    for (const auto& plan : *planning.pareto) plot.front.push_back({plan.iteration.value, *plan.usd});
  return plot;
}

Markup alternatives_table(const files::Planning& planning) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& plan : planning.answer.alternatives)
    rows.push_back({stages_in_words(plan.plan) + options_in_words(plan.plan, planning.answer.best->plan),
                    devices_in_words(plan.plan, several_zones(planning.pool)), to_string(plan.iteration),
                    plan.usd ? dollars(*plan.usd) : "–", to_string(plan.peak_memory),
                    plan.reason + (plan.within_error ? "; equal within the forecast's error" : "")});
  if (rows.empty()) return {};
  return page::table({{"next best"}, {"devices"}, {"iteration", true}, {"cost", true}, {"memory", true}, {"why it lost"}}, rows);
}

Markup others(const files::Planning& planning) {
  if (candidates(planning).size() < 2) return {};
  return page::figure(alternatives_plot(planning)) + alternatives_table(planning);
}

Markup idle_and_more(const files::Planning& planning) {
  Markup out;
  std::vector<std::vector<std::string>> idle, more;
  for (const auto& devices : planning.idle.value_or(std::vector<search::IdleDevices>{}))
    idle.push_back({text(devices.devices), place_in_words(devices.device_type, devices.zone), devices.reason});
  if (!idle.empty()) out += page::table({{"idle", true}, {"devices"}, {"why"}}, idle);
  for (const auto& node : planning.one_more_node.value_or(std::vector<search::OneMoreNode>{}))
    more.push_back({text(node.added.count, " ", place_in_words(node.added.device_type, node.added.zone)), to_string(node.best.iteration),
                    formatted("%+.1f %%", 100 * (node.best.iteration / planning.answer.best->iteration - 1))});
  if (!more.empty()) out += page::table({{"one more node"}, {"iteration", true}, {"change", true}}, more);
  return out;
}

Markup timeline(const files::Planning& planning, const PlanningTask& task) {
  if (task.settings.sailor_artifact) return page::paragraph("The formulas of the Sailor artifact know no timeline.");
  const Forecasting forecasting{subject_of(planning.answer.best->plan, task.profile, "the plan"), task.settings};
  return page::figure(forecast_gantt(forecasting.forecast(true), *planning.forecast));
}

}  // namespace

std::string planning_page(const files::Planning& planning, const PlanningTask& task) {
  const auto& plan = planning.answer.best->plan;
  const auto& forecast = *planning.forecast;
  const std::string title = text("Plan for ", plan.model.name);
  Markup body = page::heading(title, text(plan.global_batch, " sequences of ", plan.length, " tokens in ", to_string(plan.precision),
                                          " on ", devices_in_words(plan, several_zones(planning.pool)), "; ", schedule_in_words(plan)));
  if (forecast.why_not) body += page::notice("It does not fit: " + simulate::in_words(*forecast.why_not));
  body += tiles_of(forecast) + page::figure(drawing_of(plan));
  body += page::section("An iteration", timeline(planning, task) + page::figure(time_chart(forecast)));
  body += page::section("Memory", page::figure(memory_chart(forecast)));
  body += page::section("What else there was", others(planning) + idle_and_more(planning));
  body += page::section("What was asked, and what is proven", page::facts(question_lines(planning)) + page::facts(answer_lines(planning)));
  return page::document(title, body);
}

}  // namespace flotilla::app
