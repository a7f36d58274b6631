#pragma once
#include <string>
#include <vector>

#include "app/bench/bench_text.hpp"
#include "flotilla/page/plots.hpp"

/// Pictures of a report.
namespace flotilla::app {

/// Baselines of a report's nodes: what was learned from earlier ones, else what nodes of a type have in common.
class NodeBaselines {
 public:
  explicit NodeBaselines(const BenchResult&);
  /// nullptr where there is none.
  const bench::Baseline* of(const std::string& type, const std::string& figure) const;

 private:
  bench::Baselines learned_, siblings_;
};
/// How good a figure is, 1: as its baseline; 0.5: half as fast.
double goodness(const bench::MeasuredFigure&, const bench::Baseline&);

/// Hosts for a picture that has no room for all: those with findings, their partners, then others; in the report's order.
std::vector<std::string> hosts_to_show(const BenchResult&, std::size_t most);

/// Figures of nodes beside their baselines; without rows where there are none.
page::HeatMap figures_map(const BenchResult&, const std::vector<std::string>& hosts);

/// What pairs of nodes reach, by UCX's own choice and by the training's messages. A pair that was measured counts in both directions.
page::HeatMap bandwidth_map(const BenchResult&, const std::vector<std::string>& hosts);
page::HeatMap latency_map(const BenchResult&, const std::vector<std::string>& hosts);
page::HeatMap training_share_map(const BenchResult&, const std::vector<std::string>& hosts);
bool has_values(const page::HeatMap&);

/// Bandwidth and latency by size and transport, two plots for each link that was measured alone.
std::vector<page::LinePlot> link_plots(const bench::BenchReport&);
/// Time by size, a line for the slowest group of each level.
page::LinePlot collectives_plot(const bench::BenchReport&);
/// A plot for each figure of each type that earlier reports have, too.
std::vector<page::LinePlot> history_plots(const BenchResult&);

}  // namespace flotilla::app
