#include "app/bench/bench_figures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "app/bench/bench_references.hpp"
#include "app/bench/bench_rows.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/base/utc.hpp"

namespace flotilla::app {
namespace {

using page::Colour;
using Look = page::Line::Look;
using Hosts = std::vector<std::string>;

const bench::NodeReport* find_node(const bench::BenchReport& report, const std::string& host) {
  const auto found = std::ranges::find(report.nodes, host, &bench::NodeReport::host);
  return found == report.nodes.end() ? nullptr : &*found;
}

/// Names of figures, without numbers of devices, in the order of their kinds, each once.
std::vector<std::string> figure_names(const bench::BenchReport& report, const std::string* type = nullptr) {
  std::vector<std::string> names;
  for (const auto& kind : bench::figure_kinds())
    for (const auto& node : report.nodes)
      for (const auto& figure : node.figures)
        if ((type == nullptr || node.type == *type) && bench::kind_of(figure.name).key == kind.key &&
            std::ranges::find(names, bench::without_device_number(figure.name)) == names.end())
          names.push_back(bench::without_device_number(figure.name));
  return names;
}

page::PlotAxis axis_of(const std::string& figure) {
  const auto& kind = bench::kind_of(figure);
  page::PlotAxis axis{.label = kind.title};
  if (kind.unit == "B")
    axis.quantity = page::Quantity::bytes;
  else if (kind.unit == "s")
    axis.quantity = page::Quantity::seconds;
  else
    axis.unit = kind.unit;
  return axis;
}

using Pair = std::pair<std::string, std::string>;

/// Of links between nodes by one transport; what was measured beside others counts before what was measured alone.
std::map<Pair, bench::LinkReport> links_by(const bench::BenchReport& report, const std::string& transport) {
  std::map<Pair, bench::LinkReport> links;
  for (const bool alone : {true, false})
    for (const auto& link : report.links)
      if (link.alone == alone && link.transport == transport && link.from != link.to && !link.points.empty())
        links[std::minmax(link.from, link.to)] = link;
  return links;
}

double rate_of(const bench::LinkReport& link) { return link.points.back().stream.value; }

using PairValues = std::map<Pair, double>;

PairValues values_of(const bench::BenchReport& report, const std::string& transport,
                     const std::function<double(const bench::LinkReport&)>& value) {
  PairValues values;
  for (const auto& [pair, link] : links_by(report, transport)) values[pair] = value(link);
  return values;
}

page::HeatMap pairs_map(page::Caption caption, page::PlotAxis axis, const Hosts& hosts, const PairValues& values) {
  page::HeatMap map{std::move(caption), "node", "node", hosts, hosts, {}, std::move(axis)};
  map.values.assign(hosts.size(), std::vector<std::optional<double>>(hosts.size()));
  for (std::size_t r = 0; r < hosts.size(); ++r)
    for (std::size_t c = 0; c < hosts.size(); ++c)
      if (const auto found = values.find(std::minmax(hosts[r], hosts[c])); r != c && found != values.end())
        map.values[r][c] = found->second;
  return map;
}

page::PlotAxis sizes() { return {.label = "message", .quantity = page::Quantity::bytes, .logarithmic = true}; }

page::Line curve(const std::string& name, const bench::LinkReport& link, Colour colour, Look look,
                 const std::function<double(const bench::LinkPoint&)>& value) {
  page::Line line{name, {}, colour, look};
  for (const auto& point : link.points)
    if (value(point) > 0) line.points.push_back({static_cast<double>(point.size.count), value(point)});
  return line;
}

/// Links between the same two places, by transport.
using LinkGroup = std::vector<bench::LinkReport>;

page::LinePlot rates_plot(const LinkGroup& links) {
  page::LinePlot plot{{"Rate, " + link_name(links.front()),
                       "Alone, by size of the message. Full lines: messages one way; broken: both directions at once."},
                      sizes(),
                      {.label = "rate", .logarithmic = true, .unit = "B/s"},
                      {},
                      {}};
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto name = transport_name(links[i]);
    plot.lines.push_back(curve(name, links[i], page::colour_of(i), Look::plain, [](const auto& p) { return p.stream.value; }));
    plot.lines.push_back(curve(name + ", both", links[i], page::colour_of(i), Look::broken, [](const auto& p) { return p.both.value; }));
  }
  std::erase_if(plot.lines, [](const page::Line& line) { return line.points.empty(); });
  return plot;
}

page::LinePlot latencies_plot(const LinkGroup& links) {
  page::LinePlot plot{{"Latency, " + link_name(links.front()), "Alone, half a round trip, by size of the message."},
                      sizes(),
                      {.label = "latency", .quantity = page::Quantity::seconds, .logarithmic = true},
                      {},
                      {}};
  for (std::size_t i = 0; i < links.size(); ++i)
    plot.lines.push_back(
        curve(transport_name(links[i]), links[i], page::colour_of(i), Look::plain, [](const auto& p) { return p.latency.value; }));
  return plot;
}

std::vector<LinkGroup> links_alone(const bench::BenchReport& report) {
  std::vector<LinkGroup> groups;
  for (const auto& link : report.links) {
    if (!link.alone || link.points.empty()) continue;
    const auto same =
        std::ranges::find_if(groups, [&](const LinkGroup& g) { return g.front().from == link.from && g.front().to == link.to; });
    if (same == groups.end())
      groups.push_back({link});
    else
      same->push_back(link);
  }
  return groups;
}

/// The group of a level that takes the longest for its largest message.
const bench::CollectiveReport* slowest_of(const bench::BenchReport& report, const std::string& level) {
  const bench::CollectiveReport* slowest = nullptr;
  for (const auto& c : report.collectives)
    if (c.level == level && !c.points.empty() && (slowest == nullptr || c.points.back().time > slowest->points.back().time)) slowest = &c;
  return slowest;
}

/// A report at its date, in seconds before the newest one.
struct Dated {
  const bench::BenchReport* report;
  double at;
};

std::vector<Dated> dated(const BenchResult& result) {
  std::vector<Dated> all;
  const auto here = parse_utc(result.report.measured_at);
  if (!here) return all;
  for (const auto& report : result.earlier)
    if (const auto then = parse_utc(report.measured_at); then && report.measured_at != result.report.measured_at)
      all.push_back({&report, *then - *here});
  if (!all.empty()) all.push_back({&result.report, 0});
  return all;
}

std::vector<double> sorted_values(const bench::BenchReport& report, const std::string& type, const std::string& figure) {
  std::vector<double> values;
  for (const auto& node : report.nodes)
    if (node.type == type) std::ranges::copy(bench::figure_values(node, figure), std::back_inserter(values));
  std::ranges::sort(values);
  return values;
}

/// Nodes whose figure is a finding, three at most.
Hosts odd_hosts(const BenchResult& result, const std::string& figure) {
  Hosts hosts;
  for (const auto& verdict : result.verdicts)
    if (hosts.size() < 3 &&
        std::ranges::any_of(verdict.reasons, [&](const auto& reason) { return bench::without_device_number(reason.check) == figure; }))
      hosts.push_back(verdict.host);
  return hosts;
}

void add_nodes_with_findings(page::LinePlot& plot, const BenchResult& result, const std::vector<Dated>& reports, const std::string& type,
                             const std::string& figure) {
  Colour colours[] = {Colour::vermillion, Colour::orange, Colour::purple};
  std::size_t next = 0;
  for (const auto& host : odd_hosts(result, figure)) {
    page::Line line{host, {}, colours[next++], Look::marked};
    for (const auto& [report, at] : reports)
      if (const auto* node = find_node(*report, host); node != nullptr && node->type == type)
        if (const auto value = bench::worst_value(*node, figure)) line.points.push_back({at, *value});
    plot.lines.push_back(std::move(line));
  }
}

void add_tolerance(page::LinePlot& plot, const BenchResult& result, const std::string& type, const std::string& figure) {
  const auto* baseline = bench::find_baseline(result.baselines, type, figure);
  if (baseline == nullptr || plot.lines.front().points.empty()) return;
  const auto& kind = bench::kind_of(figure);
  const double limit = baseline->median * (1 + (kind.more_is_better ? -1 : 1) * bench::tolerance(kind, *baseline));
  plot.lines.push_back({"tolerance", {{plot.lines.front().points.front().x, limit}, {0, limit}}, Colour::grey, Look::broken});
}

page::LinePlot history_plot(const BenchResult& result, const std::vector<Dated>& reports, const std::string& type,
                            const std::string& figure) {
  page::LinePlot plot{{text(figure_title(figure), ", ", type),
                       "Median of the nodes or GPUs of each report, and the least and the greatest of them; nodes with findings by name."},
                      {.label = "time to this report", .quantity = page::Quantity::seconds},
                      axis_of(figure),
                      {},
                      {}};
  page::Line median{"median", {}, Colour::blue, Look::marked}, least{"", {}, Colour::grey, Look::faint}, greatest = least;
  for (const auto& [report, at] : reports) {
    const auto values = sorted_values(*report, type, figure);
    if (values.empty()) continue;
    median.points.push_back({at, values[values.size() / 2]});
    least.points.push_back({at, values.front()});
    greatest.points.push_back({at, values.back()});
  }
  plot.lines = {std::move(median), std::move(least), std::move(greatest)};
  add_tolerance(plot, result, type, figure);
  add_nodes_with_findings(plot, result, reports, type, figure);
  return plot;
}

}  // namespace

Hosts hosts_to_show(const BenchResult& result, std::size_t most) {
  Hosts all;
  for (const auto& node : result.report.nodes) all.push_back(node.host);
  if (all.size() <= most) return all;
  std::set<std::string> odd, chosen;
  for (const auto& verdict : result.verdicts)
    if (verdict.grade != bench::Grade::ok) odd.insert(verdict.host);
  const auto choose = [&](const std::string& host) {
    if (chosen.size() < most && std::ranges::find(all, host) != all.end()) chosen.insert(host);
  };
  for (const auto& host : odd) choose(host);
  for (const auto& link : result.report.links) {
    if (odd.contains(link.from)) choose(link.to);
    if (odd.contains(link.to)) choose(link.from);
  }
  for (const auto& host : all) choose(host);
  std::erase_if(all, [&](const std::string& host) { return !chosen.contains(host); });
  return all;
}

page::HeatMap figures_map(const BenchResult& result, const Hosts& hosts) {
  page::HeatMap map{{"Nodes beside their type",
                     "Each figure in percent of what is usual for the node's type: darker is worse. Of GPUs, each node's worst."},
                    "figure",
                    "node",
                    {},
                    hosts,
                    {},
                    {.label = "of the usual", .unit = "%"}};
  const References references{result};
  for (const auto& name : figure_names(result.report)) {
    auto& row = map.values.emplace_back(hosts.size());
    for (std::size_t c = 0; c < hosts.size(); ++c) {
      const auto* node = find_node(result.report, hosts[c]);
      const auto value = bench::worst_value(*node, name);
      const auto* baseline = references.usual(node->type, name);
      if (value && baseline != nullptr) row[c] = 100 * goodness({name, *value}, baseline->median);
    }
    map.rows.push_back(figure_title(name));
  }
  return map;
}

namespace {

/// Each figure that has a reference, in percent of it.
page::BarChart bars(page::Caption caption, const bench::NodeReport& node, const char* limit_is,
                    const std::function<std::optional<double>(const std::string&)>& reference) {
  page::BarChart chart{std::move(caption), {.label = limit_is, .from_zero = true, .unit = "%"}, {{Colour::blue, node.host}}, {}, limit_is};
  for (const auto& figure : node.figures)
    if (const auto value = reference(figure.name); value && *value > 0)
      chart.rows.push_back({figure_title(figure.name), {std::round(100 * goodness(figure, *value))}, 100});
  return chart;
}

/// The slowest first; one alone has nothing beside it.
page::BarChart thread_bars(const bench::NodeReport& node) {
  constexpr std::size_t most_shown = 16;
  auto cores = node.cores;
  std::ranges::sort(cores, std::greater{}, [](const bench::Core& core) { return core.step.value; });
  page::BarChart chart{{"Hardware threads", text("Processor time of the known-answer step, all at work at once; of ", cores.size(),
                                                 cores.size() > most_shown ? " the slowest." : ", the slowest first.")},
                       {.label = "step", .quantity = page::Quantity::seconds, .from_zero = true},
                       {{Colour::blue, "step"}},
                       {},
                       ""};
  for (std::size_t c = 0; cores.size() > 1 && c < std::min(cores.size(), most_shown); ++c)
    chart.rows.push_back({text("thread ", cores[c].cpu), {cores[c].step.value}, {}});
  return chart;
}

}  // namespace

std::vector<page::BarChart> own_bars(const BenchResult& result) {
  const auto& node = result.report.nodes.front();
  const References references{result};
  std::vector<page::BarChart> charts{
      bars({"Beside the catalogue",
            "Percent of the hardware catalogue's figures: peaks of the device, or of as many cores, each with its share of a full socket."},
           node, "of the catalogue", [&](const std::string& figure) { return references.catalogue(node, figure); }),
      bars({"Beside what is usual", text("Percent of the median of ", result.held_against, "; more is better.")}, node, "of the usual",
           [&](const std::string& figure) {
             const auto* usual = references.usual(node.type, figure);
             return usual != nullptr ? std::optional{usual->median} : std::nullopt;
           }),
      thread_bars(node)};
  std::erase_if(charts, [](const auto& chart) { return chart.rows.empty(); });
  return charts;
}

bool has_values(const page::HeatMap& map) {
  return std::ranges::any_of(map.values,
                             [](const auto& row) { return std::ranges::any_of(row, [](const auto& v) { return v.has_value(); }); });
}

page::HeatMap bandwidth_map(const BenchResult& result, const Hosts& hosts) {
  return pairs_map(
      {"Bandwidth of pairs, UCX", "One way, with the round's other pairs at work. Darker is slower; what is empty was not measured."},
      {.label = "GB/s", .from_zero = true}, hosts, values_of(result.report, "", [](const auto& link) { return rate_of(link) / 1e9; }));
}

page::HeatMap latency_map(const BenchResult& result, const Hosts& hosts) {
  return pairs_map({"Latency of pairs, UCX", "Half a round trip of 8 B. Lighter is slower."},
                   {.label = "latency", .quantity = page::Quantity::seconds, .from_zero = true}, hosts,
                   values_of(result.report, "", [](const auto& link) { return link.points.front().latency.value; }));
}

page::HeatMap training_share_map(const BenchResult& result, const Hosts& hosts) {
  const auto ucx = values_of(result.report, "", rate_of);
  PairValues shares;
  for (const auto& [pair, rate] : values_of(result.report, bench::training_transport, rate_of))
    if (const auto fabric = ucx.find(pair); fabric != ucx.end() && fabric->second > 0) shares[pair] = 100 * rate / fabric->second;
  return pairs_map({"What training gets of it", "Bandwidth of the training's own messages (MPI) in percent of UCX's."},
                   {.label = "of UCX", .from_zero = true, .unit = "%"}, hosts, shares);
}

std::vector<page::LinePlot> link_plots(const bench::BenchReport& report) {
  std::vector<page::LinePlot> plots;
  for (const auto& links : links_alone(report)) {
    plots.push_back(rates_plot(links));
    plots.push_back(latencies_plot(links));
  }
  return plots;
}

page::LinePlot collectives_plot(const bench::BenchReport& report) {
  page::LinePlot plot{{"All-reduces", "Time of the slowest member by what is summed; of each level the slowest group."},
                      sizes(),
                      {.label = "time", .quantity = page::Quantity::seconds, .logarithmic = true},
                      {},
                      {}};
  for (const char* level : {"node", "switch", "partition", "all"})
    if (const auto* slowest = slowest_of(report, level)) {
      page::Line line{text(level, " ", slowest->name), {}, page::colour_of(plot.lines.size()), Look::marked};
      for (const auto& p : slowest->points) line.points.push_back({static_cast<double>(p.size.count), p.time.value});
      plot.lines.push_back(std::move(line));
    }
  return plot;
}

std::vector<page::LinePlot> history_plots(const BenchResult& result) {
  std::vector<page::LinePlot> plots;
  const auto reports = dated(result);
  std::set<std::string> types;
  for (const auto& node : result.report.nodes) types.insert(node.type);
  for (const auto& type : types)
    for (const auto& figure : figure_names(result.report, &type)) {
      auto plot = history_plot(result, reports, type, figure);
      if (plot.lines.front().points.size() > 1) plots.push_back(std::move(plot));
    }
  return plots;
}

}  // namespace flotilla::app
