#include "flotilla/files/profile_file.hpp"

#include <array>

#include "document.hpp"
#include "flotilla/files/text_file.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace {

using cluster::DeviceKind;
using cluster::LinkLevel;
using detail::Node;

constexpr std::string_view format = "flotilla-profile";
constexpr std::int64_t version = 1;
constexpr std::array<std::string_view, 2> kinds{"cpu", "gpu"};
constexpr std::array<std::string_view, 3> levels{"node", "zone", "wide"};
constexpr double slowest_rate = 1e-300;  // bytes per second; no rate is zero

template <class Enum, std::size_t N>
std::string spelling(const std::array<std::string_view, N>& names, Enum value) {
  return std::string{names[static_cast<std::size_t>(value)]};
}

template <class Enum, std::size_t N>
Enum parse_enum(const Json& place, const std::array<std::string_view, N>& names) {
  const std::string value = place.as_string();
  std::string known;
  for (std::size_t i = 0; i < N; ++i) {
    if (value == names[i]) return static_cast<Enum>(i);
    known += (i == 0 ? "" : ", ") + std::string{names[i]};
  }
  place.refuse(text("expected one of ", known, ", got ", place.one_line()));
}

template <class Values, class Convert>
Node array_of(const Values& values, Convert convert) {
  Node::Array nodes;
  for (const auto& value : values) nodes.push_back(convert(value));
  return nodes;
}

Node type_object(const cluster::DeviceType& t) {
  return Node::Object{{"name", t.name},
                      {"kind", spelling(kinds, t.kind)},
                      {"memory_bytes", t.memory.count},
                      {"peak_fp32_flops_per_s", t.peak_fp32.value},
                      {"peak_bf16_flops_per_s", t.peak_bf16.value},
                      {"memory_bandwidth_bytes_per_s", t.memory_bandwidth.value},
                      {"source", t.source}};
}

Node device_object(const cluster::Device& d) {
  return Node::Object{{"rank", d.rank.value},       {"type", d.type},      {"host", d.host}, {"zone", d.zone},
                      {"local_rank", d.local_rank}, {"threads", d.threads}};
}

Node piece_object(const cluster::LinkPiece& p) {
  return Node::Object{{"from_bytes", p.from.count}, {"latency_s", p.latency.value}, {"bandwidth_bytes_per_s", p.bandwidth.value}};
}

Node link_object(const cluster::Link& l) {
  return Node::Object{{"level", spelling(levels, l.level)},
                      {"from", l.from},
                      {"to", l.to},
                      {"relative_scatter", l.relative_scatter},
                      {"pieces", array_of(l.pieces, piece_object)}};
}

Node time_object(const cluster::OperationTime& t) {
  return Node::Object{{"device_type", t.device_type},
                      {"operation", t.operation},
                      {"tensor_parallel", t.tensor_parallel},
                      {"sequences", t.sequences},
                      {"length", t.length},
                      {"precision", to_string(t.precision)},
                      {"time_s", t.time.value},
                      {"relative_scatter", t.relative_scatter}};
}

cluster::DeviceType type_of(const Json& object) {
  object.expect_keys(
      {"name", "kind", "memory_bytes", "peak_fp32_flops_per_s", "peak_bf16_flops_per_s", "memory_bandwidth_bytes_per_s", "source"});
  return {object.get_string("name"),
          parse_enum<DeviceKind>(object.at("kind"), kinds),
          {object.get_int64("memory_bytes", 1)},
          {object.get_double("peak_fp32_flops_per_s", 0)},
          {object.get_double("peak_bf16_flops_per_s", 0)},
          {object.get_double("memory_bandwidth_bytes_per_s", 0)},
          get_string_or(object, "source", "")};
}

/// The name of a type that the profile describes.
std::string known_type(const Json& place, const cluster::Profile& profile) {
  std::string name = place.as_string();
  if (!cluster::find_type(profile, name)) place.refuse(text("no such device type: ", place.one_line(), "; it must stand in device_types"));
  return name;
}

cluster::Device device_of(const Json& object, const cluster::Profile& profile) {
  object.expect_keys({"rank", "type", "host", "zone", "local_rank", "threads"});
  const int next = static_cast<int>(profile.devices.size());
  return {Rank{object.get_int("rank", next, next)}, known_type(object.at("type"), profile), object.get_string("host"),
          get_string_or(object, "zone", ""),        object.get_int("local_rank", 0),        object.get_int("threads", 1)};
}

cluster::LinkPiece piece_of(const Json& object) {
  object.expect_keys({"from_bytes", "latency_s", "bandwidth_bytes_per_s"});
  const cluster::LinkPiece piece{
      {object.get_int64("from_bytes", 0)}, {object.get_double("latency_s")}, {object.get_double("bandwidth_bytes_per_s", slowest_rate)}};
  // The line of a later piece may cross zero, but not where the piece holds.
  if (piece.latency.value + (piece.from / piece.bandwidth).value < 0)
    object.at("latency_s").refuse(text("messages of ", piece.from.count, " bytes would take less than no time"));
  return piece;
}

cluster::Link link_of(const Json& object) {
  object.expect_keys({"level", "from", "to", "relative_scatter", "pieces"});
  cluster::Link link;
  link.level = parse_enum<LinkLevel>(object.at("level"), levels);
  link.from = object.get_string("from");
  link.to = object.get_string("to");
  if (object.has("relative_scatter")) link.relative_scatter = object.get_double("relative_scatter", 0);
  for (const Json& piece : object.at("pieces").items()) {
    link.pieces.push_back(piece_of(piece));
    const std::int64_t from = link.pieces.back().from.count;
    const bool rises = link.pieces.size() == 1 ? from == 0 : from > link.pieces[link.pieces.size() - 2].from.count;
    if (!rises) piece.at("from_bytes").refuse(text("is ", from, "; expected 0 in the first piece, then increasing sizes"));
  }
  if (link.pieces.empty()) object.at("pieces").refuse("is empty; expected at least one piece");
  return link;
}

cluster::OperationTime time_of(const Json& object, const cluster::Profile& profile) {
  object.expect_keys({"device_type", "operation", "tensor_parallel", "sequences", "length", "precision", "time_s", "relative_scatter"});
  cluster::OperationTime time;
  time.device_type = known_type(object.at("device_type"), profile);
  time.operation = object.get_string("operation");
  time.tensor_parallel = object.get_int("tensor_parallel", 1);
  time.sequences = object.get_int("sequences", 1);
  time.length = object.get_int("length", 1);
  time.precision = parse_at(object.at("precision"), parse_precision);
  time.time = {object.get_double("time_s", 0)};
  if (object.has("relative_scatter")) time.relative_scatter = object.get_double("relative_scatter", 0);
  return time;
}

}  // namespace

std::string profile_to_json(const cluster::Profile& p) {
  return detail::pretty(Node::Object{{"format", std::string{format}},
                                     {"version", version},
                                     {"model_fingerprint", p.model_fingerprint},
                                     {"software", p.software},
                                     {"measured_at", p.measured_at},
                                     {"device_types", array_of(p.device_types, type_object)},
                                     {"devices", array_of(p.devices, device_object)},
                                     {"links", array_of(p.links, link_object)},
                                     {"operation_times", array_of(p.operation_times, time_object)}});
}

cluster::Profile profile_from_json(const Json& document) {
  require_format(document, format, version);
  document.expect_keys(
      {"format", "version", "model_fingerprint", "software", "measured_at", "device_types", "devices", "links", "operation_times"});
  cluster::Profile profile;
  profile.model_fingerprint = document.get_string("model_fingerprint");
  profile.software = document.get_string("software");
  profile.measured_at = document.get_string("measured_at");
  for (const Json& type : document.at("device_types").items()) {
    if (cluster::find_type(profile, type.get_string("name"))) type.at("name").refuse("stands twice in device_types; remove one");
    profile.device_types.push_back(type_of(type));
  }
  for (const Json& device : document.at("devices").items()) profile.devices.push_back(device_of(device, profile));
  for (const Json& link : document.at("links").items()) profile.links.push_back(link_of(link));
  for (const Json& time : document.at("operation_times").items()) profile.operation_times.push_back(time_of(time, profile));
  return profile;
}

cluster::Profile profile_from_json(std::string_view text, std::string_view source) { return profile_from_json(Json::parse(text, source)); }
void write_profile(const std::filesystem::path& path, const cluster::Profile& profile) { write_text(path, profile_to_json(profile)); }
cluster::Profile read_profile(const std::filesystem::path& path) { return profile_from_json(Json::read(path)); }

}  // namespace flotilla::files
