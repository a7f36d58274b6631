#include "app/bench/bench_text.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/bench/bench_load.hpp"
#include "app/bench/bench_rows.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {
namespace {

using bench::Grade;

std::vector<std::string> printable_all(std::vector<std::string> cells) {
  for (auto& cell : cells) cell = printable(cell);
  return cells;
}

/// A short row's words stand below it.
std::string table_text(const SharedTable& shared) {
  std::vector<TextTable::Column> columns;
  for (const auto& column : shared.columns) columns.push_back({column.title, column.number ? Align::right : Align::left});
  TextTable table{std::move(columns)};
  for (const auto& row : shared.rows) {
    auto cells = printable_all(row);
    std::string note;
    if (cells.size() < shared.columns.size()) note = cells.back(), cells.pop_back();
    table.add(std::move(cells), std::move(note));
  }
  return table.empty() ? "" : table.print(output_style()) + "\n";
}

std::string figures_text(const BenchResult& result) {
  std::string out;
  for (const auto& type : figure_rows(result))
    out += text(printable(type.type), ", ", type.nodes, type.nodes == 1 ? " node\n" : " nodes\n", table_text(type.figures));
  return out;
}

/// A point, or the least and the most of several places.
std::string point_text(const bench::SeriesPoint& point, const std::string& unit) {
  const auto value = bench::value_in_words(point.value, unit);
  return point.size.count > 0 ? text(point.size, ": ", value) : value;
}

std::pair<std::string, std::string> range_text(const bench::Series& series) {
  auto points = series.points;
  if (points.empty()) return {};
  if (!points.front().place.empty()) std::ranges::stable_sort(points, {}, &bench::SeriesPoint::value);
  return {point_text(points.front(), series.unit), points.size() > 1 ? point_text(points.back(), series.unit) : ""};
}

std::vector<std::string> imported_row(const bench::BenchReport& report, const bench::Series& series) {
  const auto [from, to] = range_text(series);
  const auto own = bench::own_point(report, series);
  return {printable(series.program), printable(series.quantity), from, to, own ? point_text(*own, series.unit) : ""};
}

/// What other programs measured, file by file, with our own figure of the same where there is one.
std::string imported_text(const bench::BenchReport& report) {
  const auto same = [](const auto& a, const auto& b) { return a.source == b.source && a.hosts == b.hosts; };
  std::string out;
  for (auto at = report.imported.begin(); at != report.imported.end();) {
    const auto& first = *at;
    TextTable table{{{"program"}, {"quantity"}, {"from", Align::right}, {"to", Align::right}, {"flotilla", Align::right}}};
    for (; at != report.imported.end() && same(*at, first); ++at) table.add(imported_row(report, *at));
    out += text(printable(first.source), first.hosts.empty() ? "" : ", on ", printable(joined(first.hosts)), "\n",
                table.print(output_style()), "\n");
  }
  return out;
}

/// How many pairs of nodes were measured, of how many.
std::string pairs_text(const bench::BenchReport& report) {
  const auto words = pairs_in_words(report);
  return words.empty() ? words : words + "\n";
}

/// What the time did not suffice for.
std::string left_out_text(const bench::BenchReport& report, int width) {
  std::string out;
  constexpr std::size_t longest = 400;  // all sizes of a link
  for (const auto& what : report.left_out) out += "  " + options::wrap(printable(what, longest), 4, width - 2) + "\n";
  return out.empty() ? out : text("left out for want of time (--budget)\n", out, "\n");
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
  return text(figures_text(result), table_text(link_rows(result.report)), pairs_text(result.report),
              table_text(collective_rows(result.report)), card_text(result.report, width), soak_text(result.report),
              imported_text(result.report), left_out_text(result.report, width), findings, findings.empty() ? "" : "\n",
              summary(result.verdicts), "; held against ", result.held_against, "\n");
}

namespace {

std::string change_in_words(double worse) {
  constexpr double least_shown = 5e-4;
  if (std::abs(worse) < least_shown) return "none";
  return text(percent(std::abs(worse)), worse > 0 ? " worse" : " better");
}

/// A row for each figure: on how many nodes or links, and the one that is worst. `changes` begin with the worst.
std::string compared_text(const std::vector<bench::Change>& changes) {
  std::vector<const bench::Change*> worst;
  std::map<std::string, int> nodes;
  for (const auto& change : changes)
    if (!change.now.empty() && nodes[change.what]++ == 0) worst.push_back(&change);
  TextTable table{{{"figure"}, {"of", Align::right}, {"worst"}, {"was", Align::right}, {"is", Align::right}, {"change", Align::right}}};
  for (const auto* change : worst)
    table.add({change->what, text(nodes[change->what]), printable(change->host), change->was, change->now, change_in_words(change->worse)});
  return table.empty() ? "" : table.print() + "\n";
}

}  // namespace

std::string changes_text(const std::vector<bench::Change>& changes, int width) {
  std::string out;
  std::ptrdiff_t beyond = 0;
  for (const auto& change : changes) {
    if (!change.beyond) continue;
    ++beyond;
    out += options::wrap(text(printable(change.host), ": ", printable(change.in_words)), 2, width) + "\n";
  }
  const auto compared = std::ranges::count_if(changes, [](const auto& change) { return change.what != "node"; });
  return text(out, out.empty() ? "" : "\n", compared_text(changes), compared, " figures compared, ", beyond,
              beyond == 1 ? " change" : " changes", " for the worse beyond tolerance\n");
}

}  // namespace flotilla::app
