#include "app/common/planning_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "app/common/pool.hpp"
#include "app/common/report_text.hpp"
#include "app/common/stage_table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/options/documents.hpp"
#include "flotilla/plan/recompute_modes.hpp"

namespace flotilla::app {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;
using Places = std::map<std::pair<std::string, std::string>, std::int64_t>;  // type and zone: devices

constexpr int key_width = 11;  // of "iteration", the longest, and the gap behind it

Places places_of(const plan::Plan& plan) {
  Places places;
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const auto& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      places[{replica.device_type, replica.zone}] += replica.tensor_parallel;
  return places;
}

std::string joined(const std::vector<std::string>& parts, const char* between = ", ") {
  std::string words;
  for (const auto& part : parts) words += (words.empty() ? "" : between) + part;
  return words;
}

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
  if (limits.iterations_per_second) within.push_back(text("at least ", *limits.iterations_per_second, " iterations/s"));
  if (limits.devices) within.push_back(text("at most ", *limits.devices, *limits.devices == 1 ? " device" : " devices"));
  return goal_in_words(objective.goal) + (within.empty() ? "" : "; " + joined(within));
}

/// "16 of 32 A100-40 @ zone-a, none of 96 V100-16 @ zone-a".
std::string devices_in_words(const search::Pool& pool, const plan::Plan* plan) {
  const Places taken = plan == nullptr ? Places{} : places_of(*plan);
  Places offered;
  std::vector<std::pair<std::string, std::string>> order;
  for (const auto& entry : pool) {
    auto& count = offered[{entry.device_type, entry.zone}];
    if (count == 0) order.emplace_back(entry.device_type, entry.zone);
    count += entry.count;
  }
  std::vector<std::string> parts;
  for (const auto& place : order) {
    const auto found = taken.find(place);
    const std::int64_t used = found == taken.end() ? 0 : found->second, all = offered[place];
    const std::string of = used == all && all > 1 ? text("all ", all) : used == 0 ? text("none of ", all) : text(used, " of ", all);
    parts.push_back(text(plan == nullptr ? text(all) : of, " ", place_in_words(place.first, place.second)));
  }
  return joined(parts);
}

std::string shape_in_words(const plan::Plan& plan, bool zones) {
  std::map<std::string, std::int64_t> devices;
  for (const auto& [place, count] : places_of(plan)) devices[zones ? place_in_words(place.first, place.second) : place.first] += count;
  std::vector<std::string> parts;
  for (const auto& [place, count] : devices) parts.push_back(text(count, " ", place));
  const auto stages = plan.stages.size();
  return text(stages, stages == 1 ? " stage on " : " stages on ", joined(parts, " + "));
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
  const std::string work = text(answer.considered, " plans evaluated, ", answer.pruned, " pruned by estimates or bounds");
  if (answer.finished) return text("finished in ", planning.searched, ": ", work);
  if (planning.cut_off)
    return text("cut off after ", planning.searched, " by the time limit: ", work, "; more time may close the gap or find a better plan");
  return text("stopped after ", planning.searched, " with a non-zero optimality gap: ", work);
}

/// Values wrapped so that lines end within the width.
std::string lines_within(Lines lines, int width) {
  for (auto& [key, value] : lines) {
    key.resize(std::max<std::size_t>(key.size(), key_width - 2), ' ');
    std::string wrapped;
    for (std::size_t begin = 0; begin < value.size();) {
      const auto end = std::min(value.find('\n', begin), value.size());
      wrapped += (wrapped.empty() ? "" : "\n") + options::wrap(value.substr(begin, end - begin), 0, width - key_width);
      begin = end + 1;
    }
    value = wrapped;
  }
  return key_values(lines);
}

Lines question(const files::Planning& planning, const plan::Plan* plan) {
  Lines lines{{"objective", objective_in_words(planning.objective)}};
  if (const auto names = search::names_of(planning.restrictions); !names.empty()) lines.emplace_back("restrict", joined(names));
  lines.emplace_back("devices", devices_in_words(planning.pool, plan));
  if (plan == nullptr) return lines;
  lines.emplace_back("model", text(plan->model.name, ", ", plan->global_batch, plan->global_batch == 1 ? " sequence of " : " sequences of ",
                                   plan->length, " tokens, ", to_string(plan->precision)));
  lines.emplace_back("plan", plan_in_words(*plan));
  return lines;
}

std::string moves_in_words(Bytes moved) {
  return moved.count > 0 ? text(moved, " to devices that do not store it yet") : "nothing: every device already stores what it needs";
}

Lines finding(const files::Planning& planning) {
  const auto& answer = planning.answer;
  Lines lines;
  if (!answer.binding.empty()) lines.emplace_back("binding", answer.binding);
  if (answer.best) lines.emplace_back("proven", proof_in_words(answer));
  if (answer.best && (planning.again || answer.best->moved.count > 0)) lines.emplace_back("moves", moves_in_words(answer.best->moved));
  lines.emplace_back("search", search_in_words(planning));
  if (!answer.space.empty()) lines.emplace_back("space", answer.space);
  return lines;
}

bool several_zones(const search::Pool& pool) {
  return std::ranges::any_of(pool, [&](const auto& entry) { return entry.zone != pool.front().zone; });
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin) + "\n");
    begin = end + 1;
  }
  return lines;
}

/// What a plan's execution options are where they differ from the best plan's.
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

/// Why a plan lost may take a line of its own: it stands below the plan.
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
    std::vector<std::string> row{shape_in_words(plan.plan, several_zones(planning.pool)) + options_in_words(plan.plan, best),
                                 to_string(plan.iteration)};
    if (priced) row.push_back(plan.usd ? dollars(*plan.usd) : "?");
    if (counted) row.push_back(goal == search::Goal::energy ? energy(plan.value) : billing(plan.value));
    row.push_back(to_string(plan.peak_memory));
    table.add(std::move(row));
  }
  const auto lines = lines_of(table.print(style));
  constexpr std::size_t head = 2;
  std::string out;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    out += lines[l];
    if (l >= head && !all[l - head].reason.empty()) out += "  " + options::wrap(all[l - head].reason, 2, width - 2) + "\n";
  }
  return out;
}

}  // namespace

std::string planning_text(const files::Planning& planning, const Style& style, int width) {
  const auto& answer = planning.answer;
  if (!answer.best) {
    Lines lines = question(planning, nullptr);
    lines.insert(lines.begin(), {"no plan", answer.no_plan_reason});
    for (auto& line : finding(planning)) lines.push_back(std::move(line));
    return lines_within(lines, width);
  }
  const auto& plan = answer.best->plan;
  Lines lines = forecast_lines(*planning.forecast);
  for (auto& line : finding(planning)) lines.push_back(std::move(line));
  std::string out = lines_within(question(planning, &plan), width) + "\n" + stage_table(plan, style) + "\n" + lines_within(lines, width);
  if (!answer.alternatives.empty()) out += "\n" + alternatives_table(planning, style, width);
  return out;
}

}  // namespace flotilla::app
