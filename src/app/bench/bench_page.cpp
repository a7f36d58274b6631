#include "app/bench/bench_page.hpp"

#include <algorithm>

#include "app/bench/bench_figures.hpp"
#include "app/bench/bench_load.hpp"
#include "app/bench/bench_references.hpp"
#include "app/bench/bench_rows.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/page/document.hpp"

namespace flotilla::app {
namespace {

using bench::Grade;
using page::Markup;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t most_pairs_shown = 96, most_columns = 256, few_cards = 12, most_cards = 200;

page::Colour colour_of(Grade grade) {
  return grade == Grade::ok ? page::Colour::green : grade == Grade::watch ? page::Colour::orange : page::Colour::vermillion;
}

Markup table_of(const SharedTable& table) {
  std::vector<page::Column> columns;
  for (const auto& column : table.columns) columns.push_back({column.title, column.number});
  return page::table(columns, table.rows);
}

bool of_one_node(const BenchResult& result) { return result.report.nodes.size() == 1 && result.report.lost.empty(); }

/// "memory_bandwidth" as people say it; other checks have names of their own.
std::string check_in_words(const std::string& check) {
  const auto& kinds = bench::figure_kinds();
  return std::ranges::find(kinds, check.substr(0, check.find(':')), &bench::FigureKind::key) == kinds.end()
             ? check
             : figure_title(bench::without_device_number(check));
}

std::string checks_in_words(const bench::NodeVerdict& verdict) {
  std::vector<std::string> checks;
  for (const auto& reason : verdict.reasons)
    if (const auto words = check_in_words(reason.check); std::ranges::find(checks, words) == checks.end()) checks.push_back(words);
  std::string out;
  for (const auto& check : checks) out += (out.empty() ? "" : ", ") + check;
  return out;
}

std::string count_in_words(const BenchResult& result, Grade grade) {
  return text(std::ranges::count(result.verdicts, grade, &bench::NodeVerdict::grade));
}

Markup tiles_of(const BenchResult& result) {
  const auto& report = result.report;
  if (of_one_node(result)) {
    const auto& verdict = result.verdicts.front();
    return page::tiles({{verdict.host, bench::to_string(verdict.grade), checks_in_words(verdict), colour_of(verdict.grade)}});
  }
  std::vector<page::Tile> tiles{
      {"nodes", text(report.nodes.size()), report.lost.empty() ? "all reported" : text(report.lost.size(), " more lost")}};
  for (const auto grade : {Grade::ok, Grade::watch, Grade::drain})
    tiles.push_back({bench::to_string(grade), count_in_words(result, grade), "", colour_of(grade)});
  if (const auto pairs = pairs_in_words(report); !pairs.empty()) tiles.push_back({"links", text(report.links.size()), pairs});
  return page::tiles(tiles);
}

/// Verdicts, those to act on first.
std::vector<const bench::NodeVerdict*> worst_first(const BenchResult& result) {
  std::vector<const bench::NodeVerdict*> all;
  for (const auto& verdict : result.verdicts) all.push_back(&verdict);
  std::ranges::stable_sort(all, [](const auto* a, const auto* b) { return a->grade > b->grade; });
  return all;
}

Markup findings(const BenchResult& result) {
  Rows rows, lines;
  for (const auto* verdict : worst_first(result)) {
    for (const auto& reason : verdict->reasons) rows.push_back({verdict->host, bench::to_string(reason.grade), reason.what});
    if (verdict->grade == Grade::drain) lines.push_back({bench::drain_line(*verdict)});
  }
  if (rows.empty()) return page::paragraph("None: all nodes are well.");
  Markup out = page::table({{"node"}, {"verdict"}, {"finding"}}, rows);
  if (!lines.empty()) out += page::folded("Lines that drain them", page::table({{"scontrol"}}, lines));
  return out;
}

/// One node by itself: there is nobody to be compared with.
Markup one_node(const BenchResult& result) {
  Markup out;
  for (const auto& chart : own_bars(result)) out += page::figure(chart);
  return out;
}

Markup overview(const BenchResult& result) {
  if (of_one_node(result)) return one_node(result);
  std::vector<page::Tile> tiles;
  for (const auto& verdict : result.verdicts)
    if (tiles.size() < most_cards || verdict.grade != Grade::ok)
      tiles.push_back({verdict.host, bench::to_string(verdict.grade), checks_in_words(verdict), colour_of(verdict.grade)});
  Markup out = tiles.size() > few_cards ? page::small_tiles(tiles) : page::tiles(tiles);
  if (tiles.size() < result.verdicts.size()) out += page::paragraph(text(result.verdicts.size() - tiles.size(), " more nodes are well."));
  const auto map = figures_map(result, hosts_to_show(result, most_columns));
  return has_values(map) ? out + page::figure(map) : out;
}

Markup figures_table(const BenchResult& result) {
  Markup out;
  for (const auto& type : figure_rows(result))
    out += page::paragraph(text(type.type, ", ", type.nodes, type.nodes == 1 ? " node" : " nodes")) + table_of(type.figures);
  return out;
}

Markup links(const BenchResult& result) {
  Markup out;
  const auto hosts = hosts_to_show(result, most_pairs_shown);
  for (const auto& map : {bandwidth_map(result, hosts), latency_map(result, hosts), training_share_map(result, hosts)})
    if (has_values(map)) out += page::figure(map);
  if (!out.empty() && hosts.size() < result.report.nodes.size())
    out += page::paragraph(text("Pairs of ", hosts.size(), " of ", result.report.nodes.size(),
                                " nodes are shown: nodes with findings and their partners first."));
  for (const auto& plot : link_plots(result.report)) out += page::figure(plot);
  const auto table = link_rows(result.report);
  return table.rows.empty() ? out : out + page::folded("Links measured alone", table_of(table));
}

Markup collectives(const bench::BenchReport& report) {
  const auto table = collective_rows(report);
  if (table.rows.empty()) return {};
  const auto plot = collectives_plot(report);
  return (plot.lines.empty() ? Markup{} : page::figure(plot)) + page::folded("Groups", table_of(table));
}

Markup history(const BenchResult& result) {
  Markup out;
  for (const auto& plot : history_plots(result)) out += page::figure(plot);
  return out;
}

Markup left_out(const bench::BenchReport& report) {
  Rows rows;
  for (const auto& what : report.left_out) rows.push_back({what});
  return rows.empty() ? Markup{} : page::table({{"What the time did not suffice for (--budget)"}}, rows);
}

SharedTable figures_of(const bench::NodeReport& node, const References& references) {
  SharedTable table{{{"test"}, {"this node", true}, {"usual", true}, {"of the usual", true}}, {}};
  for (const auto& figure : node.figures) {
    const auto* usual = references.usual(node.type, figure.name);
    table.rows.push_back({figure_title(figure.name), bench::value_in_words(figure),
                          usual != nullptr ? bench::value_in_words({figure.name, usual->median}) : "",
                          usual != nullptr ? formatted("%.0f %%", 100 * goodness(figure, usual->median)) : ""});
  }
  return filled(std::move(table));
}

Markup card_of(const bench::NodeReport& node, const bench::NodeVerdict& verdict, const References& references, bool alone) {
  std::vector<std::pair<std::string, std::string>> facts{{"type", node.type}, {"measured", node.measured_at}};
  if (!node.partition.empty()) facts.emplace_back("partition", node.partition);
  if (!node.network_switch.empty()) facts.emplace_back("switch", node.network_switch);
  for (const auto& property : node.properties) facts.emplace_back(property.name, property.value);
  for (const auto& answer : node.answers) facts.emplace_back("known answer, " + answer.name, answer.digest);
  for (const auto& reason : verdict.reasons) facts.emplace_back(bench::to_string(reason.grade), reason.what);
  const auto figures = alone ? Markup{} : table_of(figures_of(node, references));  // they stand above
  return page::folded(text(node.host, ": ", bench::to_string(verdict.grade)), figures + page::facts(facts));
}

/// Verdicts begin with those of the report's nodes, in its order.
Markup cards(const BenchResult& result) {
  const References references{result};
  Markup out;
  std::size_t shown = 0, left = 0;
  for (std::size_t n = 0; n < result.report.nodes.size(); ++n) {
    const auto& verdict = result.verdicts.at(n);
    if (shown >= most_cards && verdict.grade == Grade::ok)
      ++left;
    else
      ++shown, out += card_of(result.report.nodes[n], verdict, references, of_one_node(result));
  }
  return left == 0 ? out : out + page::paragraph(text("The report has ", left, " more, all of them ok."));
}

}  // namespace

std::string bench_page(const BenchResult& result) {
  const auto& report = result.report;
  const std::string title =
      report.nodes.size() == 1 ? "Test of " + report.nodes.front().host : text("Test of ", report.nodes.size(), " nodes");
  Markup body = page::heading(title, text("Measured at ", report.measured_at, "; held against ", result.held_against, "."));
  body += tiles_of(result);
  body += page::section("Findings", findings(result));
  body += page::section(of_one_node(result) ? "The node" : "Nodes", overview(result));
  body += page::section("Figures", figures_table(result));
  body += page::section("Links", links(result));
  body += page::section("Collectives", collectives(report));
  body += page::section("Left out", left_out(report));
  body += page::section("The card", card_markup(report));
  body += page::section("Hours under load", soak_markup(report));
  body += page::section("Earlier reports", history(result));
  body += page::section("Node by node", cards(result));
  return page::document(title, body);
}

}  // namespace flotilla::app
