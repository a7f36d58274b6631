#include <utility>

#include "profile_sections.hpp"

namespace flotilla::files {
namespace {

using cluster::DeviceKind;
using detail::Node;

constexpr double least_share = 1e-6;  // of a peak: none is zero, for times are divided by it

Node efficiency_object(const cluster::Efficiency& e) {
  return Node::Object{{"matrix", e.matrix},       {"half_flops", e.half},       {"relative_error", e.error},
                      {"matrix_16", e.matrix_16}, {"half_flops_16", e.half_16}, {"relative_error_16", e.error_16},
                      {"memory", e.memory},       {"overlap", e.overlap},       {"launch_s", e.launch.value}};
}

Node copies_object(const cluster::CopyRate& copies) {
  return Node::Object{{"latency_s", copies.latency.value}, {"bandwidth_bytes_per_s", copies.bandwidth.value}};
}

Node node_links_object(const cluster::NodeLinks& n) {
  Node::Array bundles;
  for (const auto& bundle : n.bundles)
    bundles.push_back(Node::Array{Node{std::int64_t{bundle.a}}, Node{std::int64_t{bundle.b}}, Node{std::int64_t{bundle.links}}});
  return Node::Object{{"link_bytes_per_s", n.each.value}, {"bundles", std::move(bundles)}};
}

Node type_object(const cluster::DeviceType& t) {
  Node::Object object{{"name", t.name},
                      {"kind", spelling(device_kinds, t.kind)},
                      {"memory_bytes", t.memory.count},
                      {"peak_fp32_flops_per_s", t.peak_fp32.value},
                      {"peak_bf16_flops_per_s", t.peak_bf16.value}};
  if (t.context.count != 0) object.emplace_back("context_bytes", t.context.count);
  if (t.peak_fp16.value != 0) object.emplace_back("peak_fp16_flops_per_s", t.peak_fp16.value);
  object.emplace_back("memory_bandwidth_bytes_per_s", t.memory_bandwidth.value);
  if (t.per_node != 0) object.emplace_back("devices_per_node", t.per_node);
  if (t.power_watts != 0) object.emplace_back("power_watts", t.power_watts);
  if (t.usd_per_hour != 0) object.emplace_back("usd_per_hour", t.usd_per_hour);
  if (t.billing_weight != 0) object.emplace_back("billing_weight", t.billing_weight);
  if (t.efficiency != cluster::Efficiency{}) object.emplace_back("efficiency", efficiency_object(t.efficiency));
  if (t.to_device.known()) object.emplace_back("copies_to_device", copies_object(t.to_device));
  if (t.to_host.known()) object.emplace_back("copies_to_host", copies_object(t.to_host));
  if (t.host_memory.count != 0) object.emplace_back("host_memory_bytes", t.host_memory.count);
  if (!t.node_links.bundles.empty()) object.emplace_back("node_links", node_links_object(t.node_links));
  if (t.nccl_memory.count != 0) object.emplace_back("nccl_memory_bytes", t.nccl_memory.count);
  if (t.device_mpi_memory.count != 0) object.emplace_back("device_mpi_memory_bytes", t.device_mpi_memory.count);
  if (t.switch_sums.value != 0) object.emplace_back("switch_sums_bytes_per_s", t.switch_sums.value);
  if (t.interference.any())
    object.emplace_back("interference", Node::Object{{"compute_share", t.interference.compute_share},
                                                     {"message_delay_s", t.interference.message_delay.value}});
  object.emplace_back("source", t.source);
  return object;
}

Node device_object(const cluster::Device& d) {
  return Node::Object{{"rank", d.rank.value},       {"type", d.type},      {"host", d.host}, {"zone", d.zone},
                      {"local_rank", d.local_rank}, {"threads", d.threads}};
}

double number_or(const Json& object, std::string_view key, double otherwise, double most) {
  return object.has(key) ? object.at(key).as_double(0, most) : otherwise;
}

cluster::Efficiency efficiency_of(const Json& object) {
  object.expect_keys(
      {"matrix", "half_flops", "relative_error", "matrix_16", "half_flops_16", "relative_error_16", "memory", "overlap", "launch_s"});
  cluster::Efficiency e;
  for (auto [key, share] : {std::pair{"matrix", &e.matrix}, {"matrix_16", &e.matrix_16}, {"memory", &e.memory}})
    if (object.has(key)) *share = object.at(key).as_double(least_share, 1);
  for (auto [key, half] : {std::pair{"half_flops", &e.half}, {"half_flops_16", &e.half_16}}) *half = number_or(object, key, *half, 1e30);
  for (auto [key, error] : {std::pair{"relative_error", &e.error}, {"relative_error_16", &e.error_16}})
    *error = number_or(object, key, *error, 1e3);
  e.overlap = number_or(object, "overlap", e.overlap, 1);
  e.launch = {number_or(object, "launch_s", e.launch.value, 1e3)};
  return e;
}

cluster::CopyRate copies_of(const Json& object) {
  object.expect_keys({"latency_s", "bandwidth_bytes_per_s"});
  return {{object.at("latency_s").as_double(0, 1e3)}, {object.at("bandwidth_bytes_per_s").as_double(1, 1e18)}};
}

cluster::Interference interference_of(const Json& object) {
  object.expect_keys({"compute_share", "message_delay_s"});
  return {object.at("compute_share").as_double(0, 1), {object.at("message_delay_s").as_double(0, 1e3)}};
}

cluster::DeviceType type_of(const Json& object) {
  object.expect_keys({"name",
                      "kind",
                      "memory_bytes",
                      "peak_fp32_flops_per_s",
                      "peak_bf16_flops_per_s",
                      "peak_fp16_flops_per_s",
                      "context_bytes",
                      "memory_bandwidth_bytes_per_s",
                      "devices_per_node",
                      "power_watts",
                      "usd_per_hour",
                      "billing_weight",
                      "efficiency",
                      "copies_to_device",
                      "copies_to_host",
                      "host_memory_bytes",
                      "node_links",
                      "nccl_memory_bytes",
                      "device_mpi_memory_bytes",
                      "switch_sums_bytes_per_s",
                      "interference",
                      "source"});
  cluster::DeviceType type;
  type.name = object.get_string("name");
  type.kind = parse_enum<DeviceKind>(object.at("kind"), device_kinds);
  type.memory = {object.get_int64("memory_bytes", 1)};
  type.peak_fp32 = {object.get_double("peak_fp32_flops_per_s", 0)};
  type.peak_bf16 = {object.get_double("peak_bf16_flops_per_s", 0)};
  if (object.has("context_bytes")) type.context = {object.get_int64("context_bytes", 0)};
  if (object.has("peak_fp16_flops_per_s")) type.peak_fp16 = {object.get_double("peak_fp16_flops_per_s", 0)};
  type.memory_bandwidth = {object.get_double("memory_bandwidth_bytes_per_s", 0)};
  if (object.has("devices_per_node")) type.per_node = object.get_int("devices_per_node", 0, most_devices);
  type.power_watts = number_or(object, "power_watts", 0, 1e9);
  type.usd_per_hour = number_or(object, "usd_per_hour", 0, 1e9);
  type.billing_weight = number_or(object, "billing_weight", 0, 1e12);
  if (object.has("efficiency")) type.efficiency = efficiency_of(object.at("efficiency"));
  if (object.has("copies_to_device")) type.to_device = copies_of(object.at("copies_to_device"));
  if (object.has("copies_to_host")) type.to_host = copies_of(object.at("copies_to_host"));
  if (object.has("host_memory_bytes")) type.host_memory = {object.get_int64("host_memory_bytes", 1)};
  if (object.has("node_links")) type.node_links = node_links_of(object.at("node_links"));
  if (object.has("nccl_memory_bytes")) type.nccl_memory = {object.get_int64("nccl_memory_bytes", 0)};
  if (object.has("device_mpi_memory_bytes")) type.device_mpi_memory = {object.get_int64("device_mpi_memory_bytes", 0)};
  if (object.has("switch_sums_bytes_per_s")) type.switch_sums = {object.get_double("switch_sums_bytes_per_s", slowest_rate)};
  if (object.has("interference")) type.interference = interference_of(object.at("interference"));
  type.source = get_string_or(object, "source", "");
  return type;
}

cluster::Device device_of(const Json& object, const cluster::Profile& profile) {
  object.expect_keys({"rank", "type", "host", "zone", "local_rank", "threads"});
  const int next = static_cast<int>(profile.devices.size());
  return {Rank{object.get_int("rank", next, next)}, known_type(object.at("type"), profile), object.get_string("host"),
          get_string_or(object, "zone", ""),        object.get_int("local_rank", 0),        object.get_int("threads", 1)};
}

}  // namespace

cluster::NodeLinks node_links_of(const Json& object) {
  constexpr int most_in_node = 16;
  object.expect_keys({"link_bytes_per_s", "bundles"});
  cluster::NodeLinks links{{object.get_double("link_bytes_per_s", slowest_rate)}, {}};
  for (const Json& place : entries(object.at("bundles"))) {
    const auto numbers = place.items();
    if (numbers.size() != 3) place.refuse("expected two devices of a node and the number of links between them");
    const auto number = [&](std::size_t i, int least) { return numbers[i].as_int(least, most_in_node); };
    links.bundles.push_back({number(0, 0), number(1, 0), number(2, 1)});
    if (links.bundles.back().a == links.bundles.back().b) place.refuse("joins a device with itself");
  }
  return links;
}

std::vector<Json> entries(const Json& list) {
  if (!list.is_array() || list.size() <= most_entries) return list.items();
  list.refuse(text("has ", list.size(), " entries; expected at most ", most_entries));
}

std::string known_type(const Json& place, const cluster::Profile& profile) {
  std::string name = place.as_string();
  if (!cluster::find_type(profile, name))
    place.refuse(text("no such device type: ", place.one_line(), "; it must be listed in device_types"));
  return name;
}

detail::Node device_types_node(const cluster::Profile& p) { return array_of(p.device_types, type_object); }
detail::Node devices_node(const cluster::Profile& p) { return array_of(p.devices, device_object); }

void read_device_types(const Json& list, cluster::Profile& profile) {
  for (const Json& type : entries(list)) {
    if (cluster::find_type(profile, type.get_string("name"))) type.at("name").refuse("is listed twice in device_types; remove one");
    profile.device_types.push_back(type_of(type));
  }
}

void read_devices(const Json& list, cluster::Profile& profile) {
  for (const Json& device : entries(list)) profile.devices.push_back(device_of(device, profile));
}

}  // namespace flotilla::files
