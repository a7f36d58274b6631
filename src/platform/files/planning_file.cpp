#include "flotilla/files/planning_file.hpp"

#include "document.hpp"
#include "document_node.hpp"
#include "flotilla/files/forecast_file.hpp"
#include "flotilla/files/plan_file.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace {

using detail::Node;

constexpr std::string_view planning_format = "flotilla-planning";
constexpr std::int64_t planning_version = 1;
constexpr int most_devices = 1 << 30;

template <class T>
Node optional_node(const std::optional<T>& value) {
  return value ? Node{*value} : Node{};
}
Node text_node(const std::string& value) { return value.empty() ? Node{} : Node{value}; }

Node pool_node(const search::Pool& pool) {
  Node::Array entries;
  for (const auto& entry : pool)
    entries.emplace_back(Node::Object{
        {"device_type", entry.device_type}, {"zone", entry.zone}, {"count", entry.count}, {"devices_per_node", entry.per_node}});
  return entries;
}

Node objective_node(const Planning& planning) {
  const auto& limits = planning.objective.limits;
  const auto& best = planning.answer.best;
  return Node::Object{{"goal", search::to_string(planning.objective.goal)},
                      {"value", best ? Node{best->value} : Node{}},
                      {"confidence", planning.objective.confidence},
                      {"limits", Node::Object{{"cost_per_iteration_usd", optional_node(limits.usd_per_iteration)},
                                              {"cost_per_hour_usd", optional_node(limits.usd_per_hour)},
                                              {"iterations_per_second", optional_node(limits.iterations_per_second)},
                                              {"devices", optional_node(limits.devices)}}}};
}

Node alternative_node(const search::RankedPlan& plan) {
  return Node::Object{{"reason", plan.reason},
                      {"iteration_seconds", plan.iteration.value},
                      {"objective_value", plan.value},
                      {"cost_per_iteration_usd", optional_node(plan.usd)},
                      {"devices", plan.devices},
                      {"peak_memory_bytes", plan.peak_memory.count},
                      {"moved_bytes", plan.moved.count},
                      {"within_error", plan.within_error},
                      {"plan", detail::plan_node(plan.plan)}};
}

template <class T>
Node list_node(const std::optional<std::vector<T>>& list, Node (*node)(const T&)) {
  if (!list) return {};
  Node::Array items;
  for (const T& item : *list) items.push_back(node(item));
  return items;
}

Node assumed_link_node(const cluster::AssumedLink& link) {
  return Node::Object{{"from", link.from},
                      {"to", link.to},
                      {"distance", cluster::to_string(link.distance)},
                      {"bandwidth_bytes_per_s", link.bandwidth.value},
                      {"latency_s", link.latency.value}};
}

Node assumed_network_node(const cluster::NodeNetwork& node) {
  return Node::Object{{"type", node.type}, {"zone", node.zone}, {"cards", node.cards}, {"card_bytes_per_s", node.card.value}};
}

Node other_precision_node(const std::optional<OtherPrecision>& other) {
  if (!other) return {};
  return Node::Object{{"precision", to_string(other->precision)},
                      {"iteration_s", other->iteration ? Node{other->iteration->value} : Node{}}};
}

Node run_node(const std::optional<search::RunTotals>& run) {
  if (!run) return {};
  return Node::Object{{"iterations", run->iterations},
                      {"tokens", run->tokens},
                      {"seconds", run->time.value},
                      {"seconds_low", run->low.value},
                      {"seconds_high", run->high.value},
                      {"device_hours", run->device_hours},
                      {"cost_usd", optional_node(run->usd)},
                      {"billing_units", optional_node(run->billing_units)},
                      {"energy_joules", optional_node(run->energy_joules)}};
}

Node idle_node(const search::IdleDevices& idle) {
  return Node::Object{{"device_type", idle.device_type},
                      {"zone", idle.zone},
                      {"devices", idle.devices},
                      {"reason", idle.reason},
                      {"with_one_more", idle.with ? alternative_node(*idle.with) : Node{}}};
}

Node one_more_node(const search::OneMoreNode& more) {
  return Node::Object{{"device_type", more.added.device_type},
                      {"zone", more.added.zone},
                      {"devices", more.added.count},
                      {"best", alternative_node(more.best)}};
}

Node restrictions_node(const search::Restrictions& restrictions) {
  Node::Array names;
  for (const auto& name : search::names_of(restrictions)) names.emplace_back(name);
  return names;
}

std::string get_text(const Json& object, std::string_view key) {
  const Json place = object.at(key);
  return place.is_null() ? "" : place.as_string();
}

search::Pool pool_of(const Json& array) {
  search::Pool pool;
  for (const Json& entry : array.items()) {
    entry.expect_keys({"device_type", "zone", "count", "devices_per_node"});
    pool.push_back({entry.get_string("device_type"), entry.get_string("zone"), entry.get_int("count", 1, most_devices),
                    entry.get_int("devices_per_node", 0, most_devices)});
  }
  return pool;
}

search::Objective objective_of(const Json& object) {
  object.expect_keys({"goal", "value", "confidence", "limits"});
  const Json limits = object.at("limits");
  limits.expect_keys({"cost_per_iteration_usd", "cost_per_hour_usd", "iterations_per_second", "devices"});
  search::Objective objective{parse_at(object.at("goal"), search::parse_goal), {}};
  if (object.has("confidence")) objective.confidence = object.at("confidence").as_double(0, 1);
  objective.limits.usd_per_iteration = get_optional(limits, "cost_per_iteration_usd");
  objective.limits.usd_per_hour = get_optional(limits, "cost_per_hour_usd");
  objective.limits.iterations_per_second = get_optional(limits, "iterations_per_second");
  if (const Json devices = limits.at("devices"); !devices.is_null()) objective.limits.devices = devices.as_int(0);
  return objective;
}

search::RankedPlan alternative_of(const Json& object) {
  object.expect_keys({"reason", "iteration_seconds", "objective_value", "cost_per_iteration_usd", "devices", "peak_memory_bytes",
                      "moved_bytes", "within_error", "plan"});
  search::RankedPlan plan;
  plan.plan = plan_from_json(object.at("plan"));
  plan.reason = object.get_string("reason");
  plan.iteration = {object.get_double("iteration_seconds", 0)};
  plan.value = object.get_double("objective_value", 0);
  plan.usd = get_optional(object, "cost_per_iteration_usd");
  plan.devices = object.get_int("devices", 1);
  plan.peak_memory = {object.get_int64("peak_memory_bytes", 0)};
  plan.moved = {object.get_int64("moved_bytes", 0)};
  if (object.has("within_error")) plan.within_error = object.get_bool("within_error");
  return plan;
}

bool says(const Json& document, std::string_view key) { return document.has(key) && !document.at(key).is_null(); }

template <class T>
std::optional<std::vector<T>> list_of(const Json& document, std::string_view key, T (*read)(const Json&)) {
  if (!says(document, key)) return std::nullopt;
  std::vector<T> items;
  for (const Json& item : document.at(key).items()) items.push_back(read(item));
  return items;
}

cluster::AssumedLink assumed_link_of(const Json& object) {
  object.expect_keys({"from", "to", "distance", "bandwidth_bytes_per_s", "latency_s"});
  return {object.get_string("from"),
          object.get_string("to"),
          parse_at(object.at("distance"), cluster::parse_zone_distance),
          {object.get_double("bandwidth_bytes_per_s", 0)},
          {object.get_double("latency_s", 0)}};
}

cluster::NodeNetwork assumed_network_of(const Json& object) {
  object.expect_keys({"type", "zone", "cards", "card_bytes_per_s"});
  return {object.get_string("type"),
          object.get_string("zone"),
          object.get_int("cards", 1, 1 << 20),
          {object.get_double("card_bytes_per_s", 0)}};
}

OtherPrecision other_precision_of(const Json& object) {
  object.expect_keys({"precision", "iteration_s"});
  OtherPrecision other{parse_at(object.at("precision"), [](const std::string& name) { return parse_precision(name); }), {}};
  if (!object.at("iteration_s").is_null()) other.iteration = Seconds{object.get_double("iteration_s", 0)};
  return other;
}

search::RunTotals run_of(const Json& object) {
  object.expect_keys(
      {"iterations", "tokens", "seconds", "seconds_low", "seconds_high", "device_hours", "cost_usd", "billing_units", "energy_joules"});
  search::RunTotals run;
  run.iterations = object.get_int64("iterations", 0);
  run.tokens = object.get_int64("tokens", 0);
  run.time = {object.get_double("seconds", 0)}, run.low = {object.get_double("seconds_low", 0)},
  run.high = {object.get_double("seconds_high", 0)};
  run.device_hours = object.get_double("device_hours", 0);
  run.usd = get_optional(object, "cost_usd"), run.billing_units = get_optional(object, "billing_units"),
  run.energy_joules = get_optional(object, "energy_joules");
  return run;
}

search::IdleDevices idle_of(const Json& object) {
  object.expect_keys({"device_type", "zone", "devices", "reason", "with_one_more"});
  search::IdleDevices idle{object.get_string("device_type"),
                           object.get_string("zone"),
                           object.get_int("devices", 0, most_devices),
                           object.get_string("reason"),
                           {}};
  if (says(object, "with_one_more")) idle.with = alternative_of(object.at("with_one_more"));
  return idle;
}

search::OneMoreNode one_more_of(const Json& object) {
  object.expect_keys({"device_type", "zone", "devices", "best"});
  const int devices = object.get_int("devices", 0, most_devices);
  return {{object.get_string("device_type"), object.get_string("zone"), devices, devices}, alternative_of(object.at("best"))};
}

search::RankedPlan best_of(const Json& document, const simulate::Report& forecast) {
  search::RankedPlan best;
  best.plan = plan_from_json(document.at("plan"));
  best.iteration = forecast.iteration;
  best.usd = forecast.expense.usd();
  best.devices = forecast.devices;
  best.peak_memory = forecast.peak_memory();
  best.value = document.at("objective").get_double("value", 0);
  best.moved = {document.get_int64("moved_bytes", 0)};
  return best;
}

}  // namespace

std::string planning_to_json(const Planning& planning) {
  const auto& answer = planning.answer;
  Node::Array alternatives;
  for (const auto& plan : answer.alternatives) alternatives.push_back(alternative_node(plan));
  return detail::pretty(Node::Object{{"format", std::string{planning_format}},
                                     {"version", planning_version},
                                     {"plan", answer.best ? detail::plan_node(answer.best->plan) : Node{}},
                                     {"forecast", planning.forecast ? detail::forecast_node(*planning.forecast) : Node{}},
                                     {"alternatives", std::move(alternatives)},
                                     {"bound_gap", answer.bound_gap},
                                     {"finished", answer.finished},
                                     {"cut_off", planning.cut_off},
                                     {"search_seconds", planning.searched.value},
                                     {"considered", answer.considered},
                                     {"pruned", answer.pruned},
                                     {"binding", text_node(answer.binding)},
                                     {"space", answer.space},
                                     {"no_plan_reason", text_node(answer.no_plan_reason)},
                                     {"moved_bytes", answer.best ? Node{answer.best->moved.count} : Node{}},
                                     {"objective", objective_node(planning)},
                                     {"restrictions", restrictions_node(planning.restrictions)},
                                     {"assumed_links", list_node(std::optional{planning.assumed_links}, assumed_link_node)},
                                     {"assumed_networks", list_node(std::optional{planning.assumed_networks}, assumed_network_node)},
                                     {"other_precision", other_precision_node(planning.other_precision)},
                                     {"run", run_node(planning.run)},
                                     {"idle", list_node(planning.idle, idle_node)},
                                     {"one_more_node", list_node(planning.one_more_node, one_more_node)},
                                     {"pareto", list_node(planning.pareto, alternative_node)},
                                     {"pool", pool_node(planning.pool)}});
}

Planning planning_from_json(const Json& document) {
  require_format(document, planning_format, planning_version);
  document.expect_keys(
      {"format",         "version",       "plan",   "forecast", "alternatives",  "bound_gap",      "finished",    "cut_off",
       "search_seconds", "considered",    "pruned", "binding",  "space",         "no_plan_reason", "moved_bytes", "objective",
       "restrictions",   "assumed_links", "run",    "idle",     "one_more_node", "pareto",         "pool",        "assumed_networks",
       "other_precision"});
  Planning planning;
  auto& answer = planning.answer;
  planning.pool = pool_of(document.at("pool"));
  planning.objective = objective_of(document.at("objective"));
  for (const Json& name : document.at("restrictions").items())
    parse_at(name, [&](const std::string& word) { search::restrict(planning.restrictions, word); });
  if (!document.at("plan").is_null()) {
    planning.forecast = forecast_from_json(document.at("forecast"));
    answer.best = best_of(document, *planning.forecast);
  }
  for (const Json& plan : document.at("alternatives").items()) answer.alternatives.push_back(alternative_of(plan));
  answer.bound_gap = document.at("bound_gap").as_double(0, 1);
  answer.finished = document.get_bool("finished");
  planning.cut_off = document.get_bool("cut_off");
  planning.searched = {document.get_double("search_seconds", 0)};
  answer.considered = document.get_int64("considered", 0);
  answer.pruned = document.get_int64("pruned", 0);
  answer.binding = get_text(document, "binding");
  answer.space = document.get_string("space");
  answer.no_plan_reason = get_text(document, "no_plan_reason");
  planning.assumed_links = list_of(document, "assumed_links", assumed_link_of).value_or(std::vector<cluster::AssumedLink>{});
  planning.assumed_networks = list_of(document, "assumed_networks", assumed_network_of).value_or(std::vector<cluster::NodeNetwork>{});
  if (says(document, "other_precision")) planning.other_precision = other_precision_of(document.at("other_precision"));
  if (says(document, "run")) planning.run = run_of(document.at("run"));
  planning.idle = list_of(document, "idle", idle_of);
  planning.one_more_node = list_of(document, "one_more_node", one_more_of);
  planning.pareto = list_of(document, "pareto", alternative_of);
  return planning;
}

Planning planning_from_json(std::string_view text, std::string_view source) { return planning_from_json(Json::parse(text, source)); }

}  // namespace flotilla::files
