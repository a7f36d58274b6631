#pragma once
#include <string>
#include <vector>

#include "app/bench/bench_text.hpp"
#include "flotilla/page/plots.hpp"

/// Pictures of a report.
namespace flotilla::app {

/// Hosts for a picture that has no room for all: those with findings, their partners, then others; in the report's order.
std::vector<std::string> hosts_to_show(const BenchResult&, std::size_t most);

/// Figures of nodes beside their baselines; without rows where there are none.
page::HeatMap figures_map(const BenchResult&, const std::vector<std::string>& hosts);

/// Of a report of one node: its figures in percent of the catalogue's, of what is usual, and its hardware threads; those that have values.
std::vector<page::BarChart> own_bars(const BenchResult&);

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
