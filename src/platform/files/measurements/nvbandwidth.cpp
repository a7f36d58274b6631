#include <charconv>
#include <cmath>
#include <optional>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/measurements.hpp"

namespace flotilla::files {
namespace {

namespace fs = std::filesystem;

constexpr double nvbandwidth_gigabytes = 1e9, nvbandwidth_nanoseconds = 1e-9;

std::string text_at(const Json& object, const char* key) { return object.has(key) ? object.get_string(key) : std::string{}; }

/// "12.3964", or nothing of "N/A".
std::optional<double> value_of(const Json& cell) {
  const auto words = cell.as_string();
  if (words == "N/A") return std::nullopt;
  double value = 0;
  const char* end = words.data() + words.size();
  const auto [rest, error] = std::from_chars(words.data(), end, value);
  if (error != std::errc{} || rest != end || !std::isfinite(value) || value < 0) cell.refuse("expected a number or N/A");
  return value;
}

/// Tests of latency say so in their description: "... (ns)"; all others are in GB/s.
bool is_latency(const Json& test) { return test.get_string("bandwidth_description").find("(ns)") != std::string::npos; }

void add_matrix(const Json& test, bench::Series& series) {
  const double scale = series.unit == bench::unit::seconds ? nvbandwidth_nanoseconds : nvbandwidth_gigabytes;
  const auto rows = test.at("bandwidth_matrix").items();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto cells = rows[r].items();
    for (std::size_t c = 0; c < cells.size(); ++c)
      if (const auto value = value_of(cells[c])) series.points.push_back({{}, text("row ", r, ", column ", c), *value * scale});
  }
}

bench::Series series_of(const Json& root, const Json& test, const fs::path& path) {
  bench::Series series{
      "nvbandwidth", text_at(root, "version"), test.get_string("name"), bench::unit::bytes_per_second, {}, path.string(), {}, {}};
  if (root.has("Hostname")) series.hosts = {root.get_string("Hostname")};
  if (test.get_string("status") == "Error") series.fault = test.has("error") ? test.get_string("error") : "ended in an error";
  if (!test.has("bandwidth_matrix")) return series;
  if (is_latency(test)) series.unit = bench::unit::seconds;
  add_matrix(test, series);
  return series;
}

}  // namespace

std::vector<bench::Series> read_nvbandwidth(const fs::path& path) {
  const Json document = Json::read(path);
  if (!document.is_object() || !document.has("nvbandwidth")) document.refuse("no measurement; expected what nvbandwidth -j prints");
  const Json root = document.at("nvbandwidth");
  std::vector<bench::Series> all;
  for (const auto& test : root.at("testcases").items())
    if (auto series = series_of(root, test, path); !series.points.empty() || !series.fault.empty()) all.push_back(std::move(series));
  if (all.empty()) root.at("testcases").refuse("no measurement; every test was waived");
  return all;
}

}  // namespace flotilla::files
