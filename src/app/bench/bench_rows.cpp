#include "app/bench/bench_rows.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

struct Sample {
  double value = 0;
  std::string host;
};
/// Samples of each figure in the nodes' order of figures.
using Samples = std::vector<std::pair<std::string, std::vector<Sample>>>;

void best_first(Samples& figures) {
  for (auto& [name, samples] : figures)
    std::ranges::stable_sort(samples, [more = bench::kind_of(name).more_is_better](const Sample& a, const Sample& b) {
      return more ? a.value > b.value : a.value < b.value;
    });
}

std::map<std::string, Samples> samples_of(const bench::BenchReport& report) {
  std::map<std::string, Samples> types;
  for (const auto& node : report.nodes)
    for (const auto& figure : node.figures) {
      auto& figures = types[node.type];
      const auto name = bench::without_device_number(figure.name);
      auto at = std::ranges::find(figures, name, &Samples::value_type::first);
      if (at == figures.end()) at = figures.insert(at, {name, {}});
      at->second.push_back({figure.value, node.host + figure.name.substr(name.size())});
    }
  for (auto& [type, figures] : types) best_first(figures);
  return types;
}

FigureRow row_of(const std::string& figure, const std::vector<Sample>& samples) {
  const auto& middle = samples[samples.size() / 2];
  FigureRow row{figure, figure_title(figure), bench::value_in_words({figure, middle.value}), "", ""};
  if (samples.size() > 1) row.worst = bench::value_in_words({figure, samples.back().value}), row.host = samples.back().host;
  return row;
}

}  // namespace

std::string figure_title(const std::string& figure) {
  const auto colon = figure.find(':');
  return text(bench::kind_of(figure).title, colon == figure.npos ? "" : " of " + figure.substr(colon + 1));
}

std::vector<TypeRows> figure_rows(const bench::BenchReport& report) {
  std::vector<TypeRows> types;
  for (const auto& [type, figures] : samples_of(report)) {
    auto& rows = types.emplace_back(TypeRows{type, std::ranges::count(report.nodes, type, &bench::NodeReport::type), {}});
    for (const auto& [name, samples] : figures) rows.figures.push_back(row_of(name, samples));
  }
  return types;
}

std::string link_name(const bench::LinkReport& link) { return link.from == link.to ? "inside " + link.from : link.from + " - " + link.to; }

std::string transport_name(const bench::LinkReport& link) { return link.transport.empty() ? "ucx" : link.transport; }

std::vector<std::vector<std::string>> link_rows(const bench::BenchReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& link : report.links) {
    if (!link.alone) continue;
    if (link.points.empty()) {
      rows.push_back({link_name(link), transport_name(link), link.refusal});
      continue;
    }
    const auto& last = link.points.back();
    const auto rate = [](BytesPerSecond value) { return value.value > 0 ? to_string(value) : std::string{}; };
    rows.push_back({link_name(link), transport_name(link), to_string(link.points.front().latency), to_string(last.size), rate(last.stream),
                    rate(last.both), rate(last.put)});
  }
  return rows;
}

std::vector<std::vector<std::string>> collective_rows(const bench::BenchReport& report) {
  const auto time = [](const bench::CollectivePoint& p) { return text(p.size, " in ", p.time); };
  std::vector<std::vector<std::string>> rows;
  for (const auto& c : report.collectives) {
    if (c.level == bench::faulty_member) continue;  // a finding
    const bool right = !c.points.empty();
    rows.push_back({text(c.level, " ", c.name), text(c.ranks), right ? time(c.points.front()) : "", right ? time(c.points.back()) : "",
                    c.refusal.empty() ? "sums are right" : "failed"});
  }
  return rows;
}

std::string pairs_in_words(const bench::BenchReport& report) {
  std::set<std::pair<std::string, std::string>> pairs;
  for (const auto& link : report.links)
    if (link.from != link.to) pairs.insert(std::minmax(link.from, link.to));
  const std::size_t nodes = report.nodes.size();
  return pairs.empty() ? "" : text(pairs.size(), " of ", nodes * (nodes - 1) / 2, " pairs of nodes measured");
}

}  // namespace flotilla::app
