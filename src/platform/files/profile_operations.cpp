#include "profile_sections.hpp"

namespace flotilla::files {
namespace {

using detail::Node;

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

detail::Node operation_times_node(const cluster::Profile& p) { return array_of(p.operation_times, time_object); }

void read_operation_times(const Json& list, cluster::Profile& profile) {
  for (const Json& time : entries(list)) profile.operation_times.push_back(time_of(time, profile));
}

}  // namespace flotilla::files
