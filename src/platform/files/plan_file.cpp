#include "flotilla/files/plan_file.hpp"

#include <algorithm>

#include "document.hpp"
#include "document_node.hpp"
#include "flotilla/files/text_file.hpp"
#include "model_object.hpp"

namespace flotilla::files {
namespace {

using detail::Node;

constexpr std::string_view plan_format = "flotilla-plan";
constexpr std::int64_t plan_version = 1;

Node object_of(const plan::Replica& replica) {
  Node::Array devices;
  for (const Rank rank : replica.devices) devices.emplace_back(rank.value);
  return Node::Object{{"device_type", replica.device_type}, {"zone", replica.zone},     {"tensor_parallel", replica.tensor_parallel},
                      {"devices", std::move(devices)},      {"quanta", replica.quanta}, {"sequences", replica.sequences}};
}

Node object_of(const plan::Stage& stage) {
  Node::Array replicas;
  for (const plan::Replica& replica : stage.replicas) replicas.push_back(object_of(replica));
  return Node::Object{{"layers", Node::Array{stage.first_layer, stage.last_layer}},
                      {"recompute", to_string(stage.recompute)},
                      {"replicas", std::move(replicas)}};
}

plan::Replica replica_of(const Json& object) {
  object.expect_keys({"device_type", "zone", "tensor_parallel", "devices", "quanta", "sequences"});
  plan::Replica replica;
  replica.device_type = get_string_or(object, "device_type", "");
  replica.zone = get_string_or(object, "zone", "");
  if (object.has("tensor_parallel")) replica.tensor_parallel = object.get_int("tensor_parallel");
  if (object.has("devices"))
    for (const Json& rank : object.at("devices").items()) replica.devices.emplace_back(rank.as_int(0));
  replica.quanta = object.get_int("quanta");
  replica.sequences = object.get_int("sequences");
  return replica;
}

plan::Stage stage_of(const Json& object) {
  object.expect_keys({"layers", "recompute", "replicas"});
  const std::vector<Json> layers = object.at("layers").items();
  if (layers.size() != 2) object.at("layers").refuse(text("expected [first, last), two layers, got ", layers.size()));
  plan::Stage stage;
  stage.first_layer = layers[0].as_int();
  stage.last_layer = layers[1].as_int();
  if (object.has("recompute")) stage.recompute = parse_at(object.at("recompute"), plan::parse_recompute);
  for (const Json& replica : object.at("replicas").items()) stage.replicas.push_back(replica_of(replica));
  return stage;
}

/// "stages[1].replicas[0].sequences" as "/stages/1/replicas/0/sequences".
std::string pointer(const std::string& where) {
  std::string path = "/";
  for (const char c : where)
    if (c != ']') path += c == '[' || c == '.' ? '/' : c;
  return path;
}

void require_valid(const Json& document, const plan::Plan& plan) {
  const std::vector<plan::PlanProblem> problems = plan::validate(plan);
  FLOTILLA_REQUIRE(problems.empty(), ErrorKind::bad_input, document.source(), ": ", document.pointer(), pointer(problems.front().where),
                   ": ", problems.front().what);
}

}  // namespace

detail::Node detail::plan_node(const plan::Plan& plan) {
  Node::Array stages;
  for (const plan::Stage& stage : plan.stages) stages.push_back(object_of(stage));
  Node::Object object{{"format", std::string{plan_format}},     {"version", plan_version},
                      {"model", model_object(plan.model)},      {"length", plan.length},
                      {"global_batch", plan.global_batch},      {"quantum", plan.quantum},
                      {"precision", to_string(plan.precision)}, {"schedule", to_string(plan.schedule)}};
  if (plan.chunks != 1) object.emplace_back("chunks", plan.chunks);
  if (plan.sequence_parallel) object.emplace_back("sequence_parallel", true);
  if (plan.shard_optimizer) object.emplace_back("shard_optimizer", true);
  object.emplace_back("stages", std::move(stages));
  return object;
}

/// Keys are those that are known, and JSON's texts, numbers and lists are TOML's: no other option can be said.
std::string forecast_options_in(const Json& plan, const std::vector<std::string>& left_out) {
  if (!plan.has("forecast")) return {};
  const auto forecast = plan.at("forecast");
  forecast.expect_keys({"simulate", "data"});
  std::string toml;
  for (const auto& section : forecast.keys()) {
    const auto options = forecast.at(section);
    if (section == "data")
      options.expect_keys({"documents"});
    else
      options.expect_keys({"pool", "profiles", "catalogue", "runtime", "cost-model", "reduction", "attention", "deterministic",
                           "expert-parallel", "price", "billing", "egress", "link", "nic", "oversubscription"});
    toml += "[" + section + "]\n";
    for (const auto& key : options.keys())
      if (std::ranges::find(left_out, key) == left_out.end()) toml += key + " = " + options.at(key).one_line() + "\n";
  }
  return toml;
}

std::string plan_to_json(const plan::Plan& plan) { return detail::pretty(detail::plan_node(plan)); }

plan::Plan plan_from_json(const Json& document) {
  require_format(document, plan_format, plan_version);
  document.expect_keys({"format", "version", "model", "length", "global_batch", "quantum", "precision", "schedule", "chunks",
                        "sequence_parallel", "shard_optimizer", "stages", "forecast"});
  plan::Plan plan;
  plan.model = model_from_json(document.at("model"));
  plan.length = document.get_int("length");
  plan.global_batch = document.get_int("global_batch");
  if (document.has("quantum")) plan.quantum = document.get_int("quantum");
  plan.precision = parse_at(document.at("precision"), parse_precision);
  if (document.has("schedule")) plan.schedule = parse_at(document.at("schedule"), plan::parse_schedule);
  if (document.has("chunks")) plan.chunks = document.get_int("chunks");
  if (document.has("sequence_parallel")) plan.sequence_parallel = document.get_bool("sequence_parallel");
  if (document.has("shard_optimizer")) plan.shard_optimizer = document.get_bool("shard_optimizer");
  for (const Json& stage : document.at("stages").items()) plan.stages.push_back(stage_of(stage));
  require_valid(document, plan);
  return plan;
}

plan::Plan plan_from_json(std::string_view text, std::string_view source) { return plan_from_json(Json::parse(text, source)); }
void write_plan(const std::filesystem::path& path, const plan::Plan& plan, std::string_view forecast) {
  auto node = detail::plan_node(plan);
  if (!forecast.empty()) std::get<Node::Object>(node.value).push_back({"forecast", detail::parse(forecast, path.string())});
  write_text(path, detail::pretty(node));
}
plan::Plan read_plan(const std::filesystem::path& path) { return plan_from_json(Json::read(path)); }

}  // namespace flotilla::files
