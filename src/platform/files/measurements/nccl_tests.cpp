#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/measurements.hpp"

namespace flotilla::files {
namespace {

namespace fs = std::filesystem;

constexpr double nccl_microseconds = 1e-6, nccl_gigabytes = 1e9;  // of its times and bandwidths
constexpr std::string_view expected = "no measurement; expected the file that nccl-tests write with -J";

/// "all_reduce_perf": what was started, without its folder.
std::string program_of(const Json& document) {
  if (!document.has("args") || document.at("args").size() == 0) return "nccl-tests";
  return fs::path{document.at("args").items().front().as_string()}.filename().string();
}

/// 22105 is "2.21.5"; before 2.9 it was 2804 for "2.8.4".
std::string version_of(const Json& document) {
  if (!document.has("nccl_version")) return {};
  const int code = document.get_int("nccl_version", 0);
  const int major = code < 10000 ? 1000 : 10000;
  return text("NCCL ", code / major, ".", code % major / 100, ".", code % 100);
}

std::vector<std::string> hosts_of(const Json& document) {
  std::set<std::string> hosts;
  if (document.has("config") && document.at("config").has("devices"))
    for (const auto& device : document.at("config").at("devices").items()) hosts.insert(device.get_string("hostname"));
  return {hosts.begin(), hosts.end()};
}

std::string fault_of(const Json& document) {
  if (!document.has("out_of_bounds")) return {};
  const int wrong = document.at("out_of_bounds").get_int("count");
  return wrong == 0 ? "" : text(wrong, " wrong values");
}

/// A number, or "nan" where nothing was measured.
void add_point(bench::Series& series, Bytes size, const Json& value, double scale) {
  if (value.is_number()) series.points.push_back({size, "", value.as_double(0) * scale});
}

/// A result's times and bandwidths in one of the two placements; either may not have been measured.
void add_result(const Json& result, const char* placement, bench::Series& times, bench::Series& bandwidths) {
  if (!result.has(placement) || result.at(placement).is_null()) return;
  const Bytes size{result.get_int64("size", 0)};
  const Json measured = result.at(placement);
  add_point(times, size, measured.at(measured.has("cpu_time") ? "cpu_time" : "time"), nccl_microseconds);
  add_point(bandwidths, size, measured.at("bus_bw"), nccl_gigabytes);
}

}  // namespace

std::vector<bench::Series> read_nccl_tests(const fs::path& path) {
  const Json document = Json::read(path);
  if (!document.is_object() || !document.has("results")) document.refuse(expected);
  const auto series_of = [&](std::string quantity, const char* unit) {
    return bench::Series{program_of(document), version_of(document), std::move(quantity), unit, hosts_of(document), path.string(), {},
                         fault_of(document)};
  };
  std::vector<bench::Series> all;
  for (const auto& [placement, words] : {std::pair{"out_of_place", "out of place"}, std::pair{"in_place", "in place"}}) {
    auto times = series_of(text("time, ", words), bench::unit::seconds);
    auto bandwidths = series_of(text("bus bandwidth, ", words), bench::unit::bytes_per_second);
    for (const auto& result : document.at("results").items()) add_result(result, placement, times, bandwidths);
    for (auto* series : {&times, &bandwidths})
      if (!series->points.empty()) all.push_back(std::move(*series));
  }
  if (all.empty()) document.at("results").refuse(expected);
  return all;
}

}  // namespace flotilla::files
