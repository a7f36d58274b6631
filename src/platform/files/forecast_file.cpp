#include "flotilla/files/forecast_file.hpp"

#include "document.hpp"
#include "document_node.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace {

using detail::Node;
using simulate::Breakdown;
using simulate::MemoryForecast;
using simulate::Report;
using simulate::ReportRow;

constexpr std::string_view forecast_format = "flotilla-forecast";
constexpr std::int64_t forecast_version = 1;

Node optional_node(const std::optional<double>& value) { return value ? Node{*value} : Node{}; }
Node numbers_node(const std::vector<int>& numbers) {
  Node::Array array;
  for (int n : numbers) array.emplace_back(n);
  return array;
}

std::string key_of(simulate::Activity activity) { return std::string{to_string(activity)} + "_seconds"; }
std::string key_of(program::Category category) { return std::string{simulate::name_of(category)} + "_bytes"; }

Node breakdown_node(const Breakdown& breakdown) {
  Node::Object object;
  for (int a = 0; a < simulate::activity_count; ++a) {
    const auto activity = static_cast<simulate::Activity>(a);
    object.emplace_back(key_of(activity), breakdown[activity].value);
  }
  return object;
}

Node memory_node(const MemoryForecast& memory) {
  Node::Object object;
  for (int c = 0; c < program::category_count; ++c)
    object.emplace_back(key_of(static_cast<program::Category>(c)), memory.categories[static_cast<std::size_t>(c)].count);
  object.emplace_back("outside_arena_bytes", memory.runtime_constant.count);
  object.emplace_back("peak_bytes", memory.peak().count);
  return object;
}

Node row_node(const ReportRow& row) {
  return Node::Object{{"stages", numbers_node(row.stages)},
                      {"replicas", numbers_node(row.replicas)},
                      {"device_type", row.device_type},
                      {"zone", row.zone},
                      {"ranks", row.ranks},
                      {"first_rank", row.first.value},
                      {"host", row.host},
                      {"breakdown", breakdown_node(row.breakdown)},
                      {"memory", memory_node(row.memory)},
                      {"memory_limit_bytes", row.limit ? Node{row.limit->count} : Node{}},
                      {"fits", row.fits()}};
}

Node remedy_node(const simulate::Remedy& remedy) {
  return Node::Object{{"change", remedy.change},
                      {"spare_bytes", remedy.spare.count},
                      {"iteration_seconds", remedy.iteration.value},
                      {"slowdown", remedy.slowdown},
                      {"more_devices", remedy.more_devices}};
}

Node why_not_node(const simulate::WhyNot& why) {
  const auto& s = why.shortage;
  return Node::Object{{"rank", s.rank.value},
                      {"ranks", s.ranks},
                      {"stage", s.stage},
                      {"device_type", s.device_type},
                      {"host", s.host},
                      {"needed_bytes", s.needed.count},
                      {"limit_bytes", s.limit.count},
                      {"over_bytes", (s.needed - s.limit).count},
                      {"memory", memory_node(s.memory)},
                      {"remedy", why.remedy ? remedy_node(*why.remedy) : Node{}}};
}

void add_expense(const Report& report, Node::Object& object) {
  const auto& e = report.expense;
  object.emplace_back("cost_per_iteration_usd", optional_node(e.usd()));
  object.emplace_back("device_usd", optional_node(e.device_usd));
  object.emplace_back("egress_usd", optional_node(e.egress_usd));
  object.emplace_back("billing_units", optional_node(e.billing_units));
  object.emplace_back("energy_joules", optional_node(e.energy_joules));
}

void add_speed(const Report& report, Node::Object& object) {
  object.emplace_back("iteration_seconds", report.iteration.value);
  object.emplace_back("iteration_seconds_low", report.bar().low().value);
  object.emplace_back("iteration_seconds_high", report.bar().high().value);
  object.emplace_back("relative_error", report.relative_error);
  object.emplace_back("memory_error", report.memory_error);
  object.emplace_back("estimated_share", report.estimated_share);
  object.emplace_back("share_of_peak", optional_node(report.share_of_peak));
  object.emplace_back("throughput", Node::Object{{"iterations_per_second", report.iterations_per_second()},
                                                 {"sequences_per_second", report.sequences_per_second()},
                                                 {"tokens_per_second", report.tokens_per_second()}});
}

std::vector<int> get_numbers(const Json& object, std::string_view key) {
  std::vector<int> numbers;
  for (const Json& place : object.at(key).items()) numbers.push_back(place.as_int(0));
  return numbers;
}

Breakdown breakdown_of(const Json& object) {
  Breakdown breakdown;
  for (int a = 0; a < simulate::activity_count; ++a) {
    const auto activity = static_cast<simulate::Activity>(a);
    breakdown[activity] = {object.get_double(key_of(activity), 0)};
  }
  return breakdown;
}

MemoryForecast memory_of(const Json& object) {
  MemoryForecast memory;
  for (int c = 0; c < program::category_count; ++c) {
    const Json place = object.at(key_of(static_cast<program::Category>(c)));
    constexpr std::int64_t most = std::int64_t{1} << 58;  // sums stay in range
    memory.categories[static_cast<std::size_t>(c)] = {place.as_int64(0, most)};
    memory.arena += memory.categories[static_cast<std::size_t>(c)];
  }
  memory.runtime_constant = {object.get_int64("outside_arena_bytes", 0)};
  return memory;
}

ReportRow row_of(const Json& object) {
  ReportRow row;
  row.stages = get_numbers(object, "stages");
  row.replicas = get_numbers(object, "replicas");
  row.device_type = object.get_string("device_type");
  row.zone = object.get_string("zone");
  row.ranks = object.get_int("ranks", 1);
  row.first = Rank{object.get_int("first_rank", 0)};
  row.host = object.get_string("host");
  row.breakdown = breakdown_of(object.at("breakdown"));
  row.memory = memory_of(object.at("memory"));
  const Json limit = object.at("memory_limit_bytes");
  if (!limit.is_null()) row.limit = Bytes{limit.as_int64(0)};
  return row;
}

simulate::WhyNot why_not_of(const Json& object) {
  simulate::WhyNot why;
  auto& s = why.shortage;
  s.rank = Rank{object.get_int("rank", 0)};
  s.ranks = object.get_int("ranks", 1);
  s.stage = object.get_int("stage", 0);
  s.device_type = object.get_string("device_type");
  s.host = object.get_string("host");
  s.needed = {object.get_int64("needed_bytes", 0)};
  s.limit = {object.get_int64("limit_bytes", 0)};
  s.memory = memory_of(object.at("memory"));
  const Json remedy = object.at("remedy");
  if (remedy.is_null()) return why;
  why.remedy.emplace();
  why.remedy->change = remedy.get_string("change");
  why.remedy->spare = {remedy.get_int64("spare_bytes", 0)};
  why.remedy->iteration = {remedy.get_double("iteration_seconds", 0)};
  why.remedy->slowdown = remedy.get_double("slowdown", -1);
  why.remedy->more_devices = remedy.get_int("more_devices", 0);
  return why;
}

simulate::Expense expense_of(const Json& object) {
  simulate::Expense expense;
  expense.device_usd = get_optional(object, "device_usd");
  expense.egress_usd = get_optional(object, "egress_usd");
  expense.billing_units = get_optional(object, "billing_units");
  expense.energy_joules = get_optional(object, "energy_joules");
  return expense;
}

}  // namespace

detail::Node detail::forecast_node(const Report& report) {
  Node::Object object{{"format", std::string{forecast_format}},
                      {"version", forecast_version},
                      {"plan", report.plan},
                      {"model", report.model},
                      {"runtime", report.runtime},
                      {"cost_model", report.cost_model},
                      {"length_tokens", report.length},
                      {"global_batch_sequences", report.global_batch},
                      {"devices", report.devices}};
  add_speed(report, object);
  object.emplace_back("peak_memory_bytes", report.peak_memory().count);
  object.emplace_back("fits", report.fits());
  add_expense(report, object);
  object.emplace_back("breakdown", breakdown_node(report.breakdown));
  object.emplace_back("why_not", report.why_not ? why_not_node(*report.why_not) : Node{});
  Node::Array rows;
  for (const ReportRow& row : report.rows) rows.push_back(row_node(row));
  object.emplace_back("kinds", std::move(rows));
  return object;
}

std::string forecast_to_json(const Report& report) { return detail::pretty(detail::forecast_node(report)); }

Report forecast_from_json(const Json& document) {
  require_format(document, forecast_format, forecast_version);
  document.expect_keys({"format",
                        "version",
                        "plan",
                        "model",
                        "runtime",
                        "cost_model",
                        "length_tokens",
                        "global_batch_sequences",
                        "devices",
                        "iteration_seconds",
                        "iteration_seconds_low",
                        "iteration_seconds_high",
                        "relative_error",
                        "memory_error",
                        "estimated_share",
                        "share_of_peak",
                        "throughput",
                        "peak_memory_bytes",
                        "fits",
                        "cost_per_iteration_usd",
                        "device_usd",
                        "egress_usd",
                        "billing_units",
                        "energy_joules",
                        "breakdown",
                        "why_not",
                        "kinds"});
  Report report;
  report.plan = document.get_string("plan");
  report.model = document.get_string("model");
  report.runtime = document.get_string("runtime");
  report.cost_model = document.get_string("cost_model");
  report.length = document.get_int("length_tokens", 1);
  report.global_batch = document.get_int("global_batch_sequences", 1);
  report.devices = document.get_int("devices", 1);
  report.iteration = {document.get_double("iteration_seconds", 0)};
  report.relative_error = document.get_double("relative_error", 0);
  if (document.has("memory_error")) report.memory_error = document.get_double("memory_error", 0);
  report.estimated_share = document.at("estimated_share").as_double(0, 1);
  report.share_of_peak = get_optional(document, "share_of_peak");
  report.breakdown = breakdown_of(document.at("breakdown"));
  report.expense = expense_of(document);
  for (const Json& row : document.at("kinds").items()) report.rows.push_back(row_of(row));
  if (const Json why = document.at("why_not"); !why.is_null()) report.why_not = why_not_of(why);
  return report;
}

Report forecast_from_json(std::string_view text, std::string_view source) { return forecast_from_json(Json::parse(text, source)); }

}  // namespace flotilla::files
