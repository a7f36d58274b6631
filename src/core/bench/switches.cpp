#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "flotilla/bench/fabric.hpp"
#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double nearly_full = 0.75;
constexpr std::size_t most_joined = 32;  // groups whose pairs are all measured

const NodePlace& place(const std::vector<NodePlace>& places, int node) { return places[static_cast<std::size_t>(node)]; }

/// Full rate of each component: the median of what its nodes' best pairs move.
std::map<std::string, double> full_rates(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  std::vector<double> best(places.size());
  for (const auto& m : measured)
    for (const int end : {m.pair.a, m.pair.b})
      best[static_cast<std::size_t>(end)] = std::max(best[static_cast<std::size_t>(end)], m.bandwidth);
  std::map<std::string, std::vector<double>> of_component;
  for (std::size_t n = 0; n < places.size(); ++n)
    if (best[n] > 0) of_component[places[n].component].push_back(best[n]);
  std::map<std::string, double> rates;
  for (auto& [component, values] : of_component) rates[component] = median_of(std::move(values));
  return rates;
}

/// Nodes that pairs join.
class Groups {
 public:
  explicit Groups(std::size_t nodes) : parent_(nodes) { std::iota(parent_.begin(), parent_.end(), 0); }
  void join(int a, int b) { parent_[static_cast<std::size_t>(root(a))] = root(b); }
  int root(int node) {
    auto& parent = parent_[static_cast<std::size_t>(node)];
    return parent == node ? node : parent = root(parent);
  }

 private:
  std::vector<int> parent_;
};

/// Measured groups alone, by their first node.
std::vector<SwitchGroup> measured_groups(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  const auto rates = full_rates(places, measured);
  const auto unknown = [&](int node) { return place(places, node).network_switch.empty(); };
  const auto rate = [&](int node) { return rates.at(place(places, node).component); };
  Groups joined{places.size()};
  for (const auto& m : measured)
    if (unknown(m.pair.a) && unknown(m.pair.b) && m.bandwidth >= nearly_full * std::min(rate(m.pair.a), rate(m.pair.b)))
      joined.join(m.pair.a, m.pair.b);
  std::map<int, SwitchGroup> by_root;
  for (int n = 0; n < static_cast<int>(places.size()); ++n)
    if (unknown(n)) by_root[joined.root(n)].nodes.push_back(n);
  std::vector<SwitchGroup> groups;
  for (auto& [root, group] : by_root) groups.push_back(std::move(group));
  std::ranges::sort(groups, {}, [](const SwitchGroup& group) { return group.nodes.front(); });
  return groups;
}

}  // namespace

std::vector<SwitchGroup> switch_groups(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  std::map<std::string, SwitchGroup> known;
  for (int n = 0; n < static_cast<int>(places.size()); ++n)
    if (const auto& name = place(places, n).network_switch; !name.empty()) {
      known[name].name = name;
      known[name].nodes.push_back(n);
    }
  std::vector<SwitchGroup> groups;
  for (auto& [name, group] : known) groups.push_back(std::move(group));
  for (auto& group : measured_groups(places, measured)) groups.push_back(std::move(group));
  return groups;
}

std::vector<NodePair> wide_pairs(const std::vector<NodePlace>& places) {
  std::map<std::string, std::vector<int>> of_component;
  for (int n = 0; n < static_cast<int>(places.size()); ++n)
    if (place(places, n).network_switch.empty()) of_component[place(places, n).component].push_back(n);
  std::set<NodePair> pairs;
  for (const auto& [component, nodes] : of_component)
    for (std::size_t distance = 2; 2 * distance <= nodes.size(); distance *= 2)
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const int other = nodes[(i + distance) % nodes.size()];
        pairs.insert({std::min(nodes[i], other), std::max(nodes[i], other)});
      }
  return {pairs.begin(), pairs.end()};
}

std::vector<NodePair> joining_pairs(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  auto groups = measured_groups(places, measured);
  if (groups.size() > most_joined) {
    std::ranges::stable_sort(groups, std::ranges::greater{}, [](const SwitchGroup& group) { return group.nodes.size(); });
    groups.resize(most_joined);
  }
  std::set<NodePair> known, pairs;
  for (const auto& m : measured) known.insert(m.pair);
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (std::size_t k = i + 1; k < groups.size(); ++k) {
      const int a = groups[i].nodes.front(), b = groups[k].nodes.front();
      if (const NodePair pair{std::min(a, b), std::max(a, b)}; !known.contains(pair)) pairs.insert(pair);
    }
  return {pairs.begin(), pairs.end()};
}

}  // namespace flotilla::bench
