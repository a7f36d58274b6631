#include "series.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double imported_tolerance = 0.10, own_tolerance = 0.25;  // of medians over sizes; links scatter, as verdicts know

double value_of(const LinkPoint& point, const std::string& name) {
  if (name == quantity::latency) return point.latency.value;
  if (name == quantity::one_way) return point.stream.value;
  return name == quantity::both_ways ? point.both.value : 0;
}

bool joins(const LinkReport& link, const std::vector<std::string>& hosts) {
  const std::multiset<std::string> ends{link.from, link.to};
  return ends == std::multiset<std::string>{hosts.begin(), hosts.end()} ||
         (hosts.size() == 1 && link.from == hosts[0] && link.to == hosts[0]);
}

/// All nodes of the report, or one of them by itself.
bool is_among(const BenchReport& report, const CollectiveReport& collective, const std::vector<std::string>& hosts) {
  if (hosts.size() == 1) return collective.level == "node" && collective.name == hosts[0];
  std::set<std::string> nodes;
  for (const auto& node : report.nodes) nodes.insert(node.host);
  return collective.level == "all" && nodes == std::set<std::string>{hosts.begin(), hosts.end()};
}

/// Our own points of that quantity, smallest size first.
std::vector<SeriesPoint> own_points(const BenchReport& report, const Series& series) {
  std::vector<SeriesPoint> points;
  for (const auto& link : report.links)
    if (link.alone && link.transport == training_transport && joins(link, series.hosts))
      for (const auto& point : link.points)
        if (const double value = value_of(point, series.quantity); value > 0) points.push_back({point.size, "", value});
  for (const auto& collective : report.collectives)
    if (series.quantity == quantity::all_reduce && is_among(report, collective, series.hosts))
      for (const auto& point : collective.points) points.push_back({point.size, "", point.time.value});
  return points;
}

const SeriesPoint* find(const Series& series, const SeriesPoint& like) {
  const auto found = std::ranges::find_if(series.points, [&](const auto& p) { return p.size == like.size && p.place == like.place; });
  return found == series.points.end() ? nullptr : &*found;
}

std::string place_in_words(const SeriesPoint& point) {
  if (!point.place.empty()) return text(" at ", point.place);
  return point.size.count > 0 ? text(" at ", point.size) : "";
}

/// Joined by commas; "" of none.
std::string hosts_in_words(const Series& series) {
  std::string words;
  for (const auto& host : series.hosts) words += (words.empty() ? "" : ", ") + host;
  return words;
}

void compare_one(const Series& before, const Series& after, double tolerance, std::vector<Change>& changes) {
  std::vector<double> worse;
  const SeriesPoint *last = nullptr, *was = nullptr;
  for (const auto& point : after.points) {
    const auto* earlier = find(before, point);
    if (earlier == nullptr || earlier->value <= 0) continue;
    const double rise = point.value / earlier->value - 1;
    worse.push_back(after.unit == unit::seconds ? rise : -rise);
    last = &point, was = earlier;
  }
  if (worse.empty()) return;
  const double usual = median_of(worse);
  const auto hosts = hosts_in_words(after);
  changes.push_back({hosts.empty() ? after.program : hosts, text(after.program, ", ", after.quantity), usual, usual > tolerance,
                     text(after.program, ", ", after.quantity, " ", value_in_words(last->value, after.unit), place_in_words(*last),
                          ", was ", value_in_words(was->value, after.unit), ": ", percent(std::abs(usual)),
                          usual > 0 ? " worse" : " better", worse.size() > 1 ? text(" in the median of ", worse.size(), " points") : ""),
                     value_in_words(was->value, after.unit), value_in_words(last->value, after.unit)});
}

void compare_all(const std::vector<Series>& before, const std::vector<Series>& after, double tolerance, std::vector<Change>& changes) {
  for (const auto& series : after) {
    const auto earlier = std::ranges::find_if(before, [&](const Series& b) {
      return b.program == series.program && b.quantity == series.quantity && b.unit == series.unit && b.hosts == series.hosts;
    });
    if (earlier != before.end()) compare_one(*earlier, series, tolerance, changes);
  }
}

/// Points of one quantity of a link; none where it was not measured.
Series series_of(const LinkReport& link, const char* name, const char* unit) {
  Series series{"link", "", text(name, " by ", link.transport.empty() ? "ucx" : link.transport), unit, {link.from}, "", {}, ""};
  if (link.to != link.from) series.hosts.push_back(link.to);
  for (const auto& point : link.points)
    if (const double value = value_of(point, name); value > 0) series.points.push_back({point.size, "", value});
  return series;
}

/// What our own tests measured of links alone and of all-reduces.
std::vector<Series> own_series(const BenchReport& report) {
  std::vector<Series> all;
  for (const auto& link : report.links) {
    if (!link.alone) continue;
    all.push_back(series_of(link, quantity::latency, unit::seconds));
    for (const char* name : {quantity::one_way, quantity::both_ways}) all.push_back(series_of(link, name, unit::bytes_per_second));
  }
  for (const auto& collective : report.collectives) {
    auto& series =
        all.emplace_back(Series{quantity::all_reduce, "", text(collective.level, " ", collective.name), unit::seconds, {}, "", {}, ""});
    for (const auto& point : collective.points) series.points.push_back({point.size, "", point.time.value});
  }
  return all;
}

}  // namespace

std::optional<SeriesPoint> own_point(const BenchReport& report, const Series& series) {
  std::optional<SeriesPoint> best;
  for (const auto& point : own_points(report, series))
    if (find(series, point) != nullptr && (!best || series.quantity != quantity::latency)) best = point;
  return best;
}

void compare_series(const BenchReport& before, const BenchReport& after, std::vector<Change>& changes) {
  compare_all(before.imported, after.imported, imported_tolerance, changes);
  compare_all(own_series(before), own_series(after), own_tolerance, changes);
}

}  // namespace flotilla::bench
