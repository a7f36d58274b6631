#include <algorithm>
#include <map>
#include <set>

#include "app/bench/bench_text.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/bench_file.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/journal/prometheus.hpp"
#include "flotilla/slurm/host_list.hpp"

namespace flotilla::app {
namespace {

using journal::prometheus_label;

std::string labels(const bench::NodeReport& node, const std::string& figure) {
  const auto colon = figure.find(':');
  return text("{", prometheus_label("node", node.host), ",", prometheus_label("type", node.type),
              colon == figure.npos ? "" : "," + prometheus_label("subject", figure.substr(colon + 1)), "}");
}

std::string metric_name(const bench::FigureKind& kind) {
  const std::map<std::string, std::string> suffixes{{"B", "_bytes"}, {"B/s", "_bytes_per_second"}, {"FLOP/s", "_flops"}, {"s", "_seconds"}};
  const auto suffix = suffixes.find(kind.unit);
  return text("flotilla_bench_", kind.key, suffix == suffixes.end() ? "" : suffix->second);
}

/// Digits enough for a figure.
std::string digits(double value) { return formatted("%.6g", value); }

/// Values of each figure of each partition.
using Partitions = std::map<std::string, std::map<std::string, std::vector<double>>>;

Partitions by_partition(const bench::BenchReport& report) {
  Partitions partitions;
  for (const auto& node : report.nodes)
    for (const auto& figure : node.figures)
      partitions[node.partition.empty() ? "default" : node.partition][figure.name].push_back(figure.value);
  return partitions;
}

std::string python_string(const std::string& words) {
  std::string out = "'";
  for (char c : words)
    if (c != '\'' && c != '\\' && static_cast<unsigned char>(c) >= 0x20) out += c;
  return out + "'";
}

std::string verdict_json(const bench::NodeVerdict& verdict) {
  std::vector<std::string> reasons;
  for (const auto& reason : verdict.reasons) reasons.push_back(reason.what);
  files::JsonLine line;
  line.add("host", verdict.host).add("verdict", bench::to_string(verdict.grade)).add_json("reasons", files::json_array(reasons));
  if (verdict.grade == bench::Grade::drain) line.add("drain", bench::drain_line(verdict));
  return line.text();
}

template <class T, class ToText>
std::string json_list(const std::vector<T>& all, ToText to_text) {
  std::string list;
  for (const auto& one : all) list += (list.empty() ? "" : ", ") + to_text(one);
  return "[" + list + "]";
}

/// `name`, or `name` and a number that no switch has yet.
std::string new_name(const std::string& name, int number, std::set<std::string>& taken) {
  std::string words = number == 0 ? name : text(name, number);
  while (!taken.insert(words).second) words = text(name, ++number);
  return words;
}

std::string switch_line(const std::string& name, const std::vector<std::string>& hosts, bool measured) {
  const char* note = !measured ? "" : hosts.size() > 1 ? "  # measured" : "  # measured: no other node at full rate";
  return text("SwitchName=", name, " Nodes=", slurm::host_list_of(hosts), note, "\n");
}

}  // namespace

std::string topology_text(const bench::BenchReport& report) {
  const auto switches = bench::switches_of(report);
  const bool told = std::ranges::any_of(switches, [](const auto& one) { return !one.first.empty(); });
  FLOTILLA_REQUIRE(told || !report.links.empty(), ErrorKind::usage,
                   "--topology: no switch is known and no link was measured; test links, too: --stages 0,1");
  std::set<std::string> taken;
  for (const auto& [name, hosts] : switches) taken.insert(name);
  std::string out = text("# Slurm's topology/tree, by flotilla bench of ", printable(report.measured_at), "\n");
  std::vector<std::string> leaves;
  for (const auto& [name, hosts] : switches) {
    leaves.push_back(name.empty() ? new_name("leaf", 1, taken) : name);
    out += switch_line(leaves.back(), hosts, name.empty());
  }
  if (leaves.size() > 1) out += text("SwitchName=", new_name("core", 0, taken), " Switches=", slurm::host_list_of(leaves), "\n");
  return out;
}

std::string bench_json(const BenchResult& result) {
  files::JsonLine line;
  line.add("format", "flotilla-bench-result").add("version", 1).add("held_against", result.held_against);
  line.add_json("verdicts", json_list(result.verdicts, verdict_json));
  line.add_json("report", files::bench_to_json(result.report));
  return line.text() + "\n";
}

std::string changes_json(const std::vector<bench::Change>& changes) {
  files::JsonLine line;
  line.add("format", "flotilla-bench-comparison").add("version", 1);
  line.add_json("changes", json_list(changes, [](const bench::Change& change) {
                  files::JsonLine one;
                  one.add("host", change.host).add("what", change.what).add("worse", change.worse).add("beyond_tolerance", change.beyond);
                  return one.add("in_words", change.in_words).text();
                }));
  return line.text() + "\n";
}

std::string prometheus_text(const BenchResult& result) {
  std::string out;
  for (const auto& kind : bench::figure_kinds()) {
    std::string lines;
    for (const auto& node : result.report.nodes)
      for (const auto& figure : node.figures)
        if (bench::kind_of(figure.name).key == kind.key)
          lines += text(metric_name(kind), labels(node, figure.name), " ", digits(figure.value), "\n");
    if (!lines.empty()) out += text("# HELP ", metric_name(kind), " ", kind.title, "\n# TYPE ", metric_name(kind), " gauge\n", lines);
  }
  out += "# HELP flotilla_bench_verdict 0: ok, 1: watch, 2: drain\n# TYPE flotilla_bench_verdict gauge\n";
  for (const auto& verdict : result.verdicts)
    out += text("flotilla_bench_verdict{", prometheus_label("node", verdict.host), "} ", static_cast<int>(verdict.grade), "\n");
  return out;
}

std::string reframe_text(const bench::BenchReport& report, const std::string& cluster) {
  std::string out = "reference = {\n";
  for (const auto& [partition, figures] : by_partition(report)) {
    out += text("    ", python_string(cluster + ":" + partition), ": {\n");
    for (const auto& [name, values] : figures) {
      const auto& kind = bench::kind_of(name);
      auto sorted = values;
      std::ranges::sort(sorted);
      const std::string allowed = digits(kind.tolerance);
      out += text("        ", python_string(name), ": (", digits(sorted[sorted.size() / 2]), ", ",
                  kind.more_is_better ? "-" + allowed + ", None" : "None, " + allowed, ", ", python_string(kind.unit), "),\n");
    }
    out += "    },\n";
  }
  return out + "}\n";
}

}  // namespace flotilla::app
