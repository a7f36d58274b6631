#pragma once
#include <cmath>
#include <random>
#include <string>

#include "flotilla/bench/verdict.hpp"

/// Reports of nodes that are not there.
namespace flotilla::bench::tests {

/// A node whose figures scatter by `noise` about those of its type.
inline NodeReport made_up_node(const std::string& host, double noise, std::mt19937& random, const std::string& type = "2 x AMD EPYC 9654") {
  std::normal_distribution<double> normal;
  const auto about = [&](double value) { return value * std::exp(noise * std::max(-3.0, std::min(3.0, normal(random)))); };
  NodeReport node;
  node.host = host;
  node.type = type;
  node.measured_at = "2026-11-23T19:00:00Z";
  node.done = true;
  node.properties = {{property::sockets, "2"},      {property::cores, "192"},         {property::usable_threads, "384"},
                     {"governor", "performance"},   {property::memlock, "unlimited"}, {property::rdma, "mlx5_0 400 Gb/sec"},
                     {property::software, "oneDNN"}};
  node.clock_error = 0.01 * normal(random);
  node.figures = {{"memory", 768e9},     {"memory_bandwidth", about(700e9)}, {"matmul_fp32", about(9e12)}, {"matmul_bf16", about(40e12)},
                  {"step", about(4e-3)}, {"disk_write", about(2e9)},         {"disk_read", about(3e9)}};
  for (int cpu = 0; cpu < 16; ++cpu) node.cores.push_back({cpu, "00000000000000c0", Seconds{about(5e-3)}});
  node.answers = {{"fp32, 384 threads", "0123456789abcdef"}, {"bf16, 384 threads", "fedcba9876543210"}};
  return node;
}

inline BenchReport made_up_report(int nodes, double noise = 0.01, unsigned seed = 1) {
  std::mt19937 random{seed};
  BenchReport report;
  report.measured_at = "2026-11-23T19:00:00Z";
  for (int n = 0; n < nodes; ++n) report.nodes.push_back(made_up_node("n" + std::to_string(n), noise, random));
  return report;
}

inline MeasuredFigure& figure_of(NodeReport& node, const std::string& name) {
  for (auto& figure : node.figures)
    if (figure.name == name) return figure;
  throw std::out_of_range{name};
}

inline Property& property_of(NodeReport& node, const std::string& name) {
  for (auto& p : node.properties)
    if (p.name == name) return p;
  throw std::out_of_range{name};
}

}  // namespace flotilla::bench::tests
