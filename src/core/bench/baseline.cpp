#include "baseline.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double deviations = 3, sigma_per_deviation = 1.4826;  // of normally distributed values

std::vector<Baseline> figures_of(std::span<const NodeReport* const> nodes, int fewest, bool with_busy) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> values;
  for (const auto* node : nodes)
    for (const auto& figure : node->figures)
      if (with_busy || !(busy(*node) && kind_of(figure.name).by_time))
        values[{node->type, without_device_number(figure.name)}].push_back(figure.value);
  std::vector<Baseline> all;
  for (const auto& [key, samples] : values) {
    if (static_cast<int>(samples.size()) < fewest) continue;
    const double median = median_of(samples);
    all.push_back({key.first, key.second, median, deviation_of(samples, median), static_cast<int>(samples.size())});
  }
  return all;
}

std::vector<KnownAnswer> answers_of(std::span<const NodeReport* const> nodes) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, int> counts;
  for (const auto* node : nodes)
    for (const auto& answer : node->answers) ++counts[{node->type, software_of(*node), without_device_number(answer.name), answer.digest}];
  std::vector<KnownAnswer> all;
  for (const auto& [key, count] : counts) all.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key), count});
  return all;
}

}  // namespace

const Baseline* find_baseline(const Baselines& baselines, const std::string& type, const std::string& figure) {
  const auto name = without_device_number(figure);
  const auto found = std::ranges::find_if(baselines.figures, [&](const Baseline& b) { return b.type == type && b.figure == name; });
  return found == baselines.figures.end() ? nullptr : &*found;
}

std::string software_of(const NodeReport& node) {
  const auto* software = find_property(node, property::software);
  return software == nullptr ? "" : *software;
}

Baselines baselines_of(std::span<const NodeReport* const> nodes, int fewest, bool with_busy) {
  return {figures_of(nodes, fewest, with_busy), answers_of(nodes)};
}

Baselines learn(std::span<const BenchReport> history, int fewest) {
  std::vector<const NodeReport*> nodes;
  for (const auto& report : history)
    for (const auto& node : report.nodes) nodes.push_back(&node);
  return baselines_of(nodes, fewest);
}

double tolerance(const FigureKind& kind, const Baseline& baseline) {
  const double scatter = baseline.median == 0 ? 0 : deviations * sigma_per_deviation * baseline.deviation / std::abs(baseline.median);
  return std::max(kind.tolerance, scatter);
}

}  // namespace flotilla::bench
