#include <cmath>

#include "flotilla/files/json.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace {

std::string finite_or_null(double value) { return std::isfinite(value) ? detail::number(value) : "null"; }

template <class Values, class Each>
std::string joined_array(const Values& values, Each each) {
  std::string out = "[";
  const char* separator = "";
  for (const auto& value : values) {
    out += separator + each(value);
    separator = ", ";
  }
  return out + "]";
}

}  // namespace

JsonLine& JsonLine::append(std::string_view key, std::string_view json) {
  if (!members_.empty()) members_ += ", ";
  members_ += json_string(key);
  members_ += ": ";
  members_ += json;
  return *this;
}

JsonLine& JsonLine::add(std::string_view key, std::string_view value) { return append(key, json_string(value)); }
JsonLine& JsonLine::add(std::string_view key, double value) { return append(key, finite_or_null(value)); }
JsonLine& JsonLine::add_json(std::string_view key, std::string_view json) {
  return append(key, detail::one_line(detail::parse(json, key)));
}

std::string json_array(const std::vector<std::int64_t>& values) {
  return joined_array(values, [](std::int64_t v) { return std::to_string(v); });
}
std::string json_array(const std::vector<double>& values) { return joined_array(values, finite_or_null); }
std::string json_array(const std::vector<std::string>& values) {
  return joined_array(values, [](const std::string& v) { return json_string(v); });
}

}  // namespace flotilla::files
