#include "app/common/planning_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "app/common/networks.hpp"
#include "app/common/plan_drawing.hpp"
#include "app/common/planning_tables.hpp"
#include "app/common/pool.hpp"
#include "app/common/report_text.hpp"
#include "app/common/stage_table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;
using Places = std::map<cluster::TypeInZone, std::int64_t>;

std::string goal_in_words(search::Goal goal) {
  switch (goal) {
    case search::Goal::throughput: return "highest throughput";
    case search::Goal::cost: return "lowest cost of an iteration";
    case search::Goal::billing: return "fewest billing units of an iteration";
    case search::Goal::energy: return "least energy of an iteration";
  }
  return "";
}

std::string objective_in_words(const search::Objective& objective) {
  const auto& limits = objective.limits;
  std::vector<std::string> within;
  if (limits.usd_per_iteration) within.push_back(text("at most ", dollars(*limits.usd_per_iteration), " an iteration"));
  if (limits.usd_per_hour) within.push_back(text("at most ", dollars(*limits.usd_per_hour), " an hour of the devices"));
  if (limits.iterations_per_second) within.push_back(text("at least ", formatted("%.3g", *limits.iterations_per_second), " iterations/s"));
  if (limits.devices) within.push_back(text("at most ", *limits.devices, *limits.devices == 1 ? " device" : " devices"));
  if (objective.confidence > 0) within.push_back(text("by its upper end (", percent(objective.confidence), "), memory with 99 %"));
  return goal_in_words(objective.goal) + (within.empty() ? "" : "; " + joined(within));
}

/// "16 of 32 A100-40 @ zone-a, none of 96 V100-16 @ zone-a".
std::string devices_in_words(const search::Pool& pool, const plan::Plan* plan) {
  const Places taken = plan == nullptr ? Places{} : devices_by_place(*plan);
  Places offered;
  std::vector<cluster::TypeInZone> order;
  for (const auto& entry : pool) {
    auto& count = offered[{entry.device_type, entry.zone}];
    if (count == 0) order.push_back({entry.device_type, entry.zone});
    count += entry.count;
  }
  std::vector<std::string> parts;
  for (const auto& place : order) {
    const auto found = taken.find(place);
    const std::int64_t used = found == taken.end() ? 0 : found->second, all = offered[place];
    const std::string of = used == all && all > 1 ? text("all ", all) : used == 0 ? text("none of ", all) : text(used, " of ", all);
    parts.push_back(text(plan == nullptr ? text(all) : of, " ", place_in_words(place.type, place.zone)));
  }
  return joined(parts);
}

std::string plan_in_words(const plan::Plan& plan) {
  std::size_t replicas = 0;
  for (const auto& stage : plan.stages) replicas += stage.replicas.size();
  const auto stages = plan.stages.size();
  return text(stages, stages == 1 ? " stage, " : " stages, ", replicas, replicas == 1 ? " replica, " : " replicas in all, ",
              schedule_in_words(plan));
}

std::string proof_in_words(const search::PlanAnswer& answer) {
  if (answer.bound_gap >= 1) return "nothing: the search stopped before it could exclude better plans";
  if (answer.finished && answer.bound_gap < 5e-5) return "no plan in the search space is better";
  // "Better by more than 99.7 %" would read like a small gap.
  if (answer.bound_gap >= 0.95)
    return text("little: a plan in the search space may be up to ", std::ceil(1 / (1 - answer.bound_gap)), " times better");
  return text("no plan in the search space is better by more than ", percent(std::ceil(answer.bound_gap * 1e3) / 1e3));
}

std::string search_in_words(const files::Planning& planning) {
  const auto& answer = planning.answer;
  const std::string work = text(answer.considered, answer.considered == 1 ? " plan evaluated, " : " plans evaluated, ", answer.pruned,
                                " pruned by estimates or bounds");
  if (answer.finished) return text("finished in ", planning.searched, ": ", work);
  if (planning.cut_off)
    return text("cut off after ", planning.searched, " by the time limit: ", work, "; more time may close the gap or find a better plan");
  return text("stopped after ", planning.searched, " with a non-zero optimality gap: ", work);
}

std::string moves_in_words(Bytes moved) {
  return moved.count > 0 ? text(moved, " to devices that do not store it yet") : "nothing: every device already stores what it needs";
}

/// "30 B" as people count tokens.
std::string tokens_in_words(std::int64_t tokens) {
  const auto count = static_cast<double>(tokens);
  return count >= 1e12  ? formatted("%.3gT", count / 1e12)
         : count >= 1e9 ? formatted("%.3gB", count / 1e9)
                        : formatted("%.3gM", count / 1e6);
}

std::string run_in_words(const search::RunTotals& run) {
  std::string words =
      text(run.iterations, run.iterations == 1 ? " iteration, " : " iterations, ", tokens_in_words(run.tokens), " tokens: ", run.time, " (",
           run.low, " to ", run.high, "), ", journal::short_number(run.device_hours), " device-hours");
  if (run.usd) words += ", " + dollars(*run.usd);
  if (run.billing_units) words += ", " + billing(*run.billing_units);
  if (run.energy_joules) words += ", at most " + energy(*run.energy_joules);
  return words;
}

std::string links_in_words(const std::vector<cluster::AssumedLink>& links) {
  constexpr std::size_t shown = 3;
  std::string words = "assumed: ";
  for (std::size_t i = 0; i < std::min(links.size(), shown); ++i)
    words += text(i == 0 ? "" : ", ", link_in_words(links[i]), " (", cluster::in_words(links[i].distance), ")");
  return links.size() > shown ? text(words, " and ", links.size() - shown, " more") : words;
}

std::string networks_in_words(const std::vector<cluster::NodeNetwork>& nodes) {
  constexpr std::size_t shown = 3;
  std::string words = "assumed: ";
  for (std::size_t i = 0; i < std::min(nodes.size(), shown); ++i) words += (i == 0 ? "" : ", ") + network_in_words(nodes[i]);
  if (nodes.size() > shown) words += text(" and ", nodes.size() - shown, " more");
  return words + "; --nic says what a node has";
}

/// "fp16: 3.2 times as fast as in bf16"; why, where devices stay idle: the answer's table of devices says.
std::string precision_in_words(Precision chosen, Seconds iteration, const files::OtherPrecision& other) {
  if (!other.iteration) return text(to_string(chosen), ": no plan was found in ", to_string(other.precision));
  const double ratio = other.iteration->value / iteration.value;
  const auto than = text(" in ", to_string(other.precision));
  if (ratio >= 1.05) return text(to_string(chosen), ": the pool is ", formatted("%.1f", ratio), " times as fast as", than);
  return text(to_string(chosen), ": better than a plan", than, " that takes ", *other.iteration, " an iteration");
}

/// Runner-up plans that the forecast cannot tell from the best.
std::string equal_in_words(const std::vector<search::RankedPlan>& alternatives) {
  const auto equal = std::ranges::count_if(alternatives, &search::RankedPlan::within_error);
  if (equal == 0) return "";
  return text(equal, " of ", alternatives.size(), " next best: no difference within the forecast's error");
}

bool leaves_some_idle(const files::Planning& planning) {
  std::int64_t there = 0, used = 0;
  for (const auto& entry : planning.pool) there += entry.count;
  for (const auto& [place, count] : devices_by_place(planning.answer.best->plan)) used += count;
  return used < there;
}

Lines question(const files::Planning& planning, const plan::Plan* plan) {
  Lines lines{{"objective", objective_in_words(planning.objective)}};
  if (const auto names = search::names_of(planning.restrictions); !names.empty()) lines.emplace_back("restrict", joined(names));
  lines.emplace_back("devices", devices_in_words(planning.pool, plan));
  if (!planning.assumed_networks.empty()) lines.emplace_back("network", networks_in_words(planning.assumed_networks));
  if (!planning.assumed_links.empty()) lines.emplace_back("links", links_in_words(planning.assumed_links));
  if (plan == nullptr) return lines;
  lines.emplace_back("model", text(plan->model.name, ", ", plan->global_batch, plan->global_batch == 1 ? " sequence of " : " sequences of ",
                                   plan->length, " tokens, ", to_string(plan->precision), experts_in_words(plan->model)));
  if (planning.other_precision)
    lines.emplace_back("precision", precision_in_words(plan->precision, planning.answer.best->iteration, *planning.other_precision));
  lines.emplace_back("plan", plan_in_words(*plan));
  return lines;
}

Lines finding(const files::Planning& planning) {
  const auto& answer = planning.answer;
  Lines lines;
  if (planning.run) lines.emplace_back("run", run_in_words(*planning.run));
  if (!answer.binding.empty()) lines.emplace_back("binding", answer.binding);
  if (const auto equal = equal_in_words(answer.alternatives); !equal.empty()) lines.emplace_back("equal", equal);
  if (answer.best && !planning.idle && leaves_some_idle(planning))
    lines.emplace_back("idle", "some devices; --explain says why, and what one more node would bring");
  if (answer.best) lines.emplace_back("proven", proof_in_words(answer));
  if (answer.best && (planning.again || answer.best->moved.count > 0)) lines.emplace_back("moves", moves_in_words(answer.best->moved));
  lines.emplace_back("search", search_in_words(planning));
  if (!answer.space.empty()) lines.emplace_back("space", answer.space);
  return lines;
}

}  // namespace

Lines question_lines(const files::Planning& planning) {
  return question(planning, planning.answer.best ? &planning.answer.best->plan : nullptr);
}

Lines answer_lines(const files::Planning& planning) {
  Lines lines = forecast_lines(*planning.forecast);
  for (auto& line : finding(planning)) lines.push_back(std::move(line));
  return lines;
}

std::string planning_text(const files::Planning& planning, const Style& style, int width) {
  const auto& answer = planning.answer;
  if (!answer.best) {
    Lines lines = question(planning, nullptr);
    lines.insert(lines.begin(), {"no plan", answer.no_plan_reason});
    for (auto& line : finding(planning)) lines.push_back(std::move(line));
    return key_values_within(lines, width);
  }
  const auto& plan = answer.best->plan;
  const std::string boxes = style.unicode ? plan_boxes(plan, table_width) : "";
  return key_values_within(question(planning, &plan), width) + "\n" + boxes + (boxes.empty() ? "" : "\n") + stage_table(plan, style) +
         "\n" + key_values_within(answer_lines(planning), width) + planning_tables(planning, style, width);
}

}  // namespace flotilla::app
