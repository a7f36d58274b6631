#include "app/bench/bench_rows.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "app/bench/bench_references.hpp"
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

std::vector<std::string> row_of(const bench::NodeReport& of_the_type, const std::string& figure, const std::vector<Sample>& samples,
                                const References& references) {
  const auto in_words = [&](double value) { return bench::value_in_words({figure, value}); };
  const auto& middle = samples[samples.size() / 2];
  const auto* usual = references.usual(of_the_type.type, figure);
  const auto catalogue = references.catalogue(of_the_type, figure);
  const bool several = samples.size() > 1;
  return {figure_title(figure),
          in_words(middle.value),
          several ? in_words(samples.back().value) : "",
          several ? samples.back().host : "",
          usual != nullptr ? in_words(usual->median) : "",
          catalogue ? in_words(*catalogue) : ""};
}

SharedTable figures_of(const bench::BenchReport& report, const std::string& type, const Samples& figures, const References& references) {
  const auto node = std::ranges::find(report.nodes, type, &bench::NodeReport::type);
  const bool one = std::ranges::all_of(figures, [](const auto& figure) { return figure.second.size() == 1; });
  SharedTable table{{{"test"}, {one ? "measured" : "median", true}, {"worst", true}, {"on"}, {"usual", true}, {"catalogue", true}}, {}};
  for (const auto& [name, samples] : figures) table.rows.push_back(row_of(*node, name, samples, references));
  return filled(std::move(table));
}

}  // namespace

std::string figure_title(const std::string& figure) {
  const auto colon = figure.find(':');
  return text(bench::kind_of(figure).title, colon == figure.npos ? "" : " of " + figure.substr(colon + 1));
}

SharedTable filled(SharedTable table) {
  const auto width = table.columns.size();
  std::vector<bool> keep(width, std::ranges::none_of(table.rows, [&](const auto& row) { return row.size() == width; }));
  for (const auto& row : table.rows)
    for (std::size_t c = 0; row.size() == width && c < width; ++c) keep[c] = keep[c] || !row[c].empty();
  const auto leave_out = [&](auto& cells) {
    for (std::size_t c = cells.size(); c-- > 0;)
      if (!keep[c]) cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(c));
  };
  for (auto& row : table.rows)
    if (row.size() == width) leave_out(row);
  leave_out(table.columns);
  return table;
}

std::vector<TypeRows> figure_rows(const BenchResult& result) {
  const References references{result};
  std::vector<TypeRows> types;
  for (const auto& [type, figures] : samples_of(result.report))
    types.push_back({type, std::ranges::count(result.report.nodes, type, &bench::NodeReport::type),
                     figures_of(result.report, type, figures, references)});
  return types;
}

std::string link_name(const bench::LinkReport& link) { return link.from == link.to ? "inside " + link.from : link.from + " - " + link.to; }

std::string transport_name(const bench::LinkReport& link) { return link.transport.empty() ? "ucx" : link.transport; }

SharedTable link_rows(const bench::BenchReport& report) {
  SharedTable table{{{"link"}, {"transport"}, {"8 B", true}, {"at", true}, {"one way", true}, {"both ways", true}, {"put", true}}, {}};
  auto& rows = table.rows;
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
  return filled(std::move(table));
}

SharedTable collective_rows(const bench::BenchReport& report) {
  const auto time = [](const bench::CollectivePoint& p) { return text(p.size, " in ", p.time); };
  SharedTable table{{{"all-reduce"}, {"ranks", true}, {"smallest", true}, {"largest", true}, {"proof"}}, {}};
  for (const auto& c : report.collectives) {
    if (c.level == bench::faulty_member) continue;  // a finding
    const bool right = !c.points.empty();
    table.rows.push_back({text(c.level, " ", c.name), text(c.ranks), right ? time(c.points.front()) : "",
                          right ? time(c.points.back()) : "", c.refusal.empty() ? "sums are right" : "failed"});
  }
  return filled(std::move(table));
}

std::string pairs_in_words(const bench::BenchReport& report) {
  std::set<std::pair<std::string, std::string>> pairs;
  for (const auto& link : report.links)
    if (link.from != link.to) pairs.insert(std::minmax(link.from, link.to));
  const std::size_t nodes = report.nodes.size();
  return pairs.empty() ? "" : text(pairs.size(), " of ", nodes * (nodes - 1) / 2, " pairs of nodes measured");
}

}  // namespace flotilla::app
