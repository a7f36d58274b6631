#include "app/validate/validation.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::app {
namespace {

using files::JsonLine;

void add(JsonLine& line, std::string_view key, const std::optional<double>& value) { value ? line.add(key, *value) : line.add_null(key); }

JsonLine object_of(const published::Statistics& s) {
  JsonLine line;
  line.add("name", s.name).add("runs", s.runs).add("forecast_runs", s.forecast_runs);
  add(line, "time_error_mean", s.time_error_mean);
  add(line, "time_error_median", s.time_error_median);
  add(line, "time_error_worst", s.time_error_worst);
  add(line, "time_bias", s.time_bias);
  add(line, "memory_error_mean", s.memory_error_mean);
  add(line, "memory_bias", s.memory_bias);
  add(line, "coverage", s.coverage);
  add(line, "memory_coverage", s.memory_coverage);
  line.add("out_of_memory", s.out_of_memory).add("out_of_memory_called", s.out_of_memory_called);
  line.add("out_of_memory_false", s.out_of_memory_false);
  add(line, "regret", s.regret);
  return line;
}

JsonLine object_of(const published::Comparison& c) {
  JsonLine line;
  line.add("id", c.run.id).add("source", c.run.source);
  if (!c.is_forecast()) return line.add("not_forecast", c.reason);
  line.add("runtime", c.runtime).add("device_type", c.run.hardware.device_type).add("plan", c.plan);
  line.add("forecast_seconds", c.forecast.value).add("relative_error", c.relative_error).add("fits", c.fits);
  add(line, "measured_seconds", c.run.measured.iteration ? std::optional{c.run.measured.iteration->value} : std::nullopt);
  add(line, "time_error", c.time_error());
  if (c.memory) line.add("forecast_bytes", c.memory->count);
  add(line, "memory_error", c.memory_error());
  return line;
}

template <class T>
std::string array_of(const std::vector<T>& all) {
  std::string out;
  for (const auto& one : all) out += (out.empty() ? "" : ",") + object_of(one).text();
  return "[" + out + "]";
}

}  // namespace

std::string validation_json(const Validation& v) {
  JsonLine reasons;
  for (const auto& [reason, runs] : v.not_forecast) reasons.add(reason, runs);
  JsonLine document;
  document.add("format", "flotilla-validation").add("version", 1);
  document.add_json("all", object_of(v.all).text());
  document.add_json("sources", array_of(v.sources)).add_json("runtimes", array_of(v.runtimes)).add_json("devices", array_of(v.devices));
  document.add_json("not_forecast", reasons.text()).add_json("runs", array_of(v.runs));
  return files::Json::parse(document.text(), "the validation").pretty() + "\n";
}

}  // namespace flotilla::app
