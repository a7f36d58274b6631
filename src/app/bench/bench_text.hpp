#pragma once
#include <string>
#include <vector>

#include "flotilla/bench/verdict.hpp"

namespace flotilla::app {

/// A report and what is made of it.
struct BenchResult {
  bench::BenchReport report;
  std::vector<bench::NodeVerdict> verdicts;
  std::string held_against;                   ///< "12 earlier reports", "the other nodes of their type", ...
  std::vector<bench::BenchReport> earlier{};  ///< those reports, oldest first
  bench::Baselines baselines{};               ///< learned from them
};

/// Figures by type of node, and the nodes that are not well, with the lines that drain them.
std::string bench_text(const BenchResult&, int width);
/// The nodes that are not well alone; "" where all are.
std::string findings_text(const std::vector<bench::NodeVerdict>&, int width);
/// docs/formats/bench.md describes it: the report, and the verdicts.
std::string bench_json(const BenchResult&);

/// Changes for the worse and the better, as a table.
std::string changes_text(const std::vector<bench::Change>&, int width);
std::string changes_json(const std::vector<bench::Change>&);

/// Figures and verdicts in Prometheus text format.
std::string prometheus_text(const BenchResult&);
/// A Python dictionary: partition, figure, (median, least, most, unit) as ReFrame's `reference` takes it.
std::string reframe_text(const bench::BenchReport&, const std::string& cluster);
/// Slurm's topology.conf for topology/tree: a switch for each group of nodes, and one above them.
/// Throws Error{usage} where neither the site nor stage 1 tells of switches.
std::string topology_text(const bench::BenchReport&);

}  // namespace flotilla::app
