#include "flotilla/files/corrections_file.hpp"
#include "profile_sections.hpp"

namespace flotilla::files {
namespace {

using cluster::Correction;
using cluster::LinkLevel;
using detail::Node;
using FigureKind = Correction::Figure;

constexpr std::array<std::string_view, 3> figures{"operation", "messages", "sums"};
constexpr double longest_figure = 1e9;  // seconds
constexpr double most_factor = 1e9;

Node correction_object(const Correction& c) {
  Node::Object object{{"figure", spelling(figures, c.figure)}};
  if (c.figure == FigureKind::operation)
    object.insert(object.end(), {{"device_type", c.device_type},
                                 {"operation", c.operation},
                                 {"tensor_parallel", c.tensor_parallel},
                                 {"sequences", c.sequences},
                                 {"length", c.length},
                                 {"precision", to_string(c.precision)}});
  else
    object.emplace_back("level", spelling(link_levels, c.level));
  object.insert(object.end(), {{"was_s", c.was.value},
                               {"now_s", c.now.value},
                               {"lower_quartile", c.lower},
                               {"upper_quartile", c.upper},
                               {"relative_error", c.error_bar},
                               {"iterations", c.iterations}});
  if (c.inferred) object.emplace_back("inferred", c.inferred);
  object.insert(object.end(), {{"run", c.run}, {"step", c.step}});
  return object;
}

Correction correction_of(const Json& object) {
  object.expect_keys({"figure", "device_type", "operation", "tensor_parallel", "sequences", "length", "precision", "level", "was_s",
                      "now_s", "lower_quartile", "upper_quartile", "relative_error", "iterations", "inferred", "run", "step"});
  Correction c;
  c.figure = parse_enum<FigureKind>(object.at("figure"), figures);
  if (c.figure == FigureKind::operation) {
    c.device_type = object.get_string("device_type");
    c.operation = object.get_string("operation");
    c.tensor_parallel = object.get_int("tensor_parallel", 1);
    c.sequences = object.get_int("sequences", 1);
    c.length = object.get_int("length", 1);
    c.precision = parse_at(object.at("precision"), parse_precision);
  } else {
    c.level = parse_enum<LinkLevel>(object.at("level"), link_levels);
  }
  c.was = {object.at("was_s").as_double(0, longest_figure)};
  c.now = {object.at("now_s").as_double(0, longest_figure)};
  c.lower = object.at("lower_quartile").as_double(0, most_factor);
  c.upper = object.at("upper_quartile").as_double(c.lower, most_factor);
  c.error_bar = object.at("relative_error").as_double(0, most_factor);
  c.iterations = object.get_int("iterations", 1);
  c.inferred = object.has("inferred") && object.get_bool("inferred");
  c.run = object.get_string("run");
  c.step = object.get_int64("step", 0);
  return c;
}

}  // namespace

detail::Node corrections_node(const std::vector<Correction>& corrections) { return array_of(corrections, correction_object); }

std::vector<Correction> corrections_of(const Json& document) {
  std::vector<Correction> corrections;
  if (!document.has("corrections")) return corrections;
  for (const Json& one : entries(document.at("corrections"))) corrections.push_back(correction_of(one));
  return corrections;
}

}  // namespace flotilla::files
