#include "app/bench/bench_text.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "app/common/table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {
namespace {

using bench::Grade;

struct Sample {
  double value = 0;
  std::string host;
};

/// Samples of each figure of each type, best first.
std::map<std::string, std::vector<std::pair<std::string, std::vector<Sample>>>> samples_of(const bench::Report& report) {
  std::map<std::string, std::vector<std::pair<std::string, std::vector<Sample>>>> types;
  for (const auto& node : report.nodes)
    for (const auto& figure : node.figures) {
      auto& figures = types[node.type];
      auto at = std::ranges::find(figures, figure.name, &std::pair<std::string, std::vector<Sample>>::first);
      if (at == figures.end()) at = figures.insert(at, {figure.name, {}});
      at->second.push_back({figure.value, node.host});
    }
  for (auto& [type, figures] : types)
    for (auto& [name, samples] : figures)
      std::ranges::stable_sort(samples, [more = bench::kind_of(name).more_is_better](const Sample& a, const Sample& b) {
        return more ? a.value > b.value : a.value < b.value;
      });
  return types;
}

std::string figures_text(const bench::Report& report) {
  std::string out;
  for (const auto& [type, figures] : samples_of(report)) {
    const auto nodes = std::ranges::count(report.nodes, type, &bench::NodeReport::type);
    out += text(printable(type), ", ", nodes, nodes == 1 ? " node\n" : " nodes\n");
    TextTable table{{{"test"}, {"median", Align::right}, {"worst", Align::right}, {"on"}}};
    for (const auto& [name, samples] : figures) {
      const auto& worst = samples.back();
      const auto& middle = samples[samples.size() / 2];
      const auto colon = name.find(':');
      table.add({text(bench::kind_of(name).title, colon == name.npos ? "" : " of " + printable(name.substr(colon + 1))),
                 bench::value_in_words({name, middle.value}), samples.size() > 1 ? bench::value_in_words({name, worst.value}) : "",
                 samples.size() > 1 ? printable(worst.host) : ""});
    }
    out += table.print(output_style()) + "\n";
  }
  return out;
}

/// "n1 - n2, alone" and what it reaches.
std::string links_text(const bench::Report& report) {
  TextTable table{{{"link"}, {"transport"}, {"8 B", Align::right}, {"at", Align::right}, {"one way", Align::right}, {"both ways", Align::right}, {"put", Align::right}}};
  for (const auto& link : report.links) {
    if (!link.alone) continue;
    const std::string name = link.from == link.to ? "inside " + link.from : link.from + " - " + link.to;
    const std::string transport = link.transport.empty() ? "ucx" : link.transport;
    if (link.points.empty()) {
      table.add({printable(name), printable(transport)}, printable(link.refusal));
      continue;
    }
    const auto& last = link.points.back();
    const auto rate = [](BytesPerSecond value) { return value.value > 0 ? to_string(value) : std::string{}; };
    table.add({printable(name), printable(transport), to_string(link.points.front().latency), to_string(last.size), rate(last.stream), rate(last.both), rate(last.put)});
  }
  return table.empty() ? "" : table.print(output_style()) + "\n";
}

/// All-reduces by level.
std::string collectives_text(const bench::Report& report) {
  TextTable table{{{"all-reduce"}, {"ranks", Align::right}, {"smallest", Align::right}, {"largest", Align::right}, {"proof"}}};
  for (const auto& c : report.collectives) {
    const auto time = [](const bench::CollectivePoint& p) { return text(p.size, " in ", p.time); };
    const bool right = !c.points.empty();
    table.add({printable(text(c.level, " ", c.name)), text(c.ranks), right ? time(c.points.front()) : "", right ? time(c.points.back()) : "",
               c.refusal.empty() ? "sums are right" : "failed"});
  }
  return table.empty() ? "" : table.print(output_style()) + "\n";
}

/// How many pairs of nodes were measured, of how many.
std::string pairs_text(const bench::Report& report) {
  std::set<std::pair<std::string, std::string>> pairs;
  for (const auto& link : report.links)
    if (link.from != link.to) pairs.insert({std::min(link.from, link.to), std::max(link.from, link.to)});
  const std::size_t nodes = report.nodes.size();
  return pairs.empty() ? "" : text(pairs.size(), " of ", nodes * (nodes - 1) / 2, " pairs of nodes measured\n");
}

std::string counted(std::ptrdiff_t count, const char* what) { return text(count, " ", what); }

std::string summary(const std::vector<bench::NodeVerdict>& verdicts) {
  const auto count = [&](Grade grade) { return std::ranges::count(verdicts, grade, &bench::NodeVerdict::grade); };
  std::vector<std::string> parts;
  for (const auto grade : {Grade::ok, Grade::watch, Grade::drain})
    if (count(grade) > 0) parts.push_back(counted(count(grade), bench::to_string(grade).c_str()));
  return text(verdicts.size(), verdicts.size() == 1 ? " node: " : " nodes: ", parts.empty() ? "nothing measured" : joined(parts));
}

}  // namespace

std::string findings_text(const std::vector<bench::NodeVerdict>& verdicts, int width) {
  std::string out;
  for (const auto& verdict : verdicts) {
    if (verdict.grade == Grade::ok) continue;
    out += text(printable(verdict.host), ": ", bench::to_string(verdict.grade), "\n");
    for (const auto& reason : verdict.reasons) out += "  " + options::wrap(printable(reason.what), 4, width - 2) + "\n";
    if (verdict.grade == Grade::drain) out += "  " + printable(bench::drain_line(verdict)) + "\n";
  }
  return out;
}

std::string bench_text(const BenchResult& result, int width) {
  const auto findings = findings_text(result.verdicts, width);
  return text(figures_text(result.report), links_text(result.report), pairs_text(result.report), collectives_text(result.report), findings, findings.empty() ? "" : "\n", summary(result.verdicts), "; held against ", result.held_against,
              "\n");
}

std::string changes_text(const std::vector<bench::Change>& changes, int width) {
  std::string out;
  std::ptrdiff_t beyond = 0;
  for (const auto& change : changes) {
    if (!change.beyond) continue;
    ++beyond;
    out += options::wrap(text(printable(change.host), ": ", printable(change.in_words)), 2, width) + "\n";
  }
  const auto compared = std::ranges::count_if(changes, [](const auto& change) { return change.what != "node"; });
  return text(out, compared, " figures compared, ", beyond, beyond == 1 ? " change" : " changes", " for the worse beyond tolerance\n");
}

}  // namespace flotilla::app
