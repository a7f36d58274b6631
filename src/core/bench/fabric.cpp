#include "flotilla/bench/fabric.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double clearly_less = 0.75, clearly_longer = 1.5;
constexpr Seconds noticeable{5e-6};       // by which a latency must be longer, too
constexpr double scattered = 3 * 1.4826;  // median absolute deviations by which it must be, too
constexpr int partners = 2;               // of a suspect
constexpr std::size_t fewest_alike = 3;   // pairs that have a median worth the name

using Group = std::vector<int>;

std::string group_name(const NodePlace& place) {
  if (place.component.empty()) return place.network_switch;
  return place.network_switch.empty() ? place.component : place.component + ", " + place.network_switch;
}

std::vector<Group> groups_of(const std::vector<NodePlace>& places) {
  std::map<std::string, Group> groups;
  for (int n = 0; n < static_cast<int>(places.size()); ++n) groups[group_name(places[static_cast<std::size_t>(n)])].push_back(n);
  std::vector<Group> all;
  for (auto& [name, group] : groups) all.push_back(std::move(group));
  return all;
}

NodePair ordered(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

void add_ring(const Group& group, std::set<NodePair>& pairs) {
  for (std::size_t i = 0; group.size() > 1 && i < group.size(); ++i) pairs.insert(ordered(group[i], group[(i + 1) % group.size()]));
}

void add_between(const std::vector<Group>& groups, std::set<NodePair>& pairs) {
  std::vector<std::size_t> turn(groups.size());
  const auto next = [&](std::size_t g) { return groups[g][turn[g]++ % groups[g].size()]; };
  for (std::size_t distance = 1; distance < groups.size(); distance *= 2)
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (const std::size_t other = (g + distance) % groups.size(); other != g) pairs.insert(ordered(next(g), next(other)));
}

/// What pairs are compared with each other: those within groups of a component, those between two components.
using Likeness = std::pair<std::string, std::string>;

Likeness likeness(const std::vector<NodePlace>& places, NodePair pair) {
  const auto& a = places[static_cast<std::size_t>(pair.a)];
  const auto& b = places[static_cast<std::size_t>(pair.b)];
  if (group_name(a) == group_name(b)) return {a.component, "within a group"};
  return {std::min(a.component, b.component), "to " + std::max(a.component, b.component)};
}

struct Usual {
  double bandwidth = 0;
  Seconds longest{};  ///< latency that is not odd yet
};

/// On busy nodes latencies scatter; on quiet ones the deviation is as good as nothing.
Seconds longest_usual(const std::vector<double>& latencies) {
  const double median = median_of(latencies);
  return {std::max({median * clearly_longer, median + noticeable.value, median + scattered * deviation_of(latencies, median)})};
}

std::map<Likeness, Usual> usual_of(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  std::map<Likeness, std::pair<std::vector<double>, std::vector<double>>> samples;
  for (const auto& m : measured) {
    auto& [bandwidths, latencies] = samples[likeness(places, m.pair)];
    bandwidths.push_back(m.bandwidth);
    latencies.push_back(m.latency.value);
  }
  std::map<Likeness, Usual> usual;
  for (const auto& [like, values] : samples)
    if (values.first.size() >= fewest_alike) usual[like] = {median_of(values.first), longest_usual(values.second)};
  return usual;
}

bool is_odd(const MeasuredPair& m, const Usual& usual) { return m.bandwidth < clearly_less * usual.bandwidth || m.latency > usual.longest; }

std::vector<NodePair> odd_pairs(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  const auto usual = usual_of(places, measured);
  std::vector<NodePair> odd;
  for (const auto& m : measured)
    if (const auto like = usual.find(likeness(places, m.pair)); like != usual.end() && is_odd(m, like->second)) odd.push_back(m.pair);
  return odd;
}

/// Pairs of each node, all and odd ones.
struct NodeCounts {
  int all = 0, odd = 0;
  bool suspect() const { return 2 * odd > all; }
};

std::vector<NodeCounts> counts_of(std::size_t nodes, const std::vector<MeasuredPair>& measured, const std::vector<NodePair>& odd) {
  std::vector<NodeCounts> counts(nodes);
  for (const auto& m : measured)
    for (const int end : {m.pair.a, m.pair.b}) ++counts[static_cast<std::size_t>(end)].all;
  for (const auto& pair : odd)
    for (const int end : {pair.a, pair.b}) ++counts[static_cast<std::size_t>(end)].odd;
  return counts;
}

/// Groups whose own median is odd beside that of all groups of their component.
std::vector<std::string> odd_groups(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  std::map<std::string, std::map<std::string, std::vector<double>>> bandwidths;  // component, group
  for (const auto& m : measured) {
    const auto& a = places[static_cast<std::size_t>(m.pair.a)];
    if (group_name(a) == group_name(places[static_cast<std::size_t>(m.pair.b)]))
      bandwidths[a.component][group_name(a)].push_back(m.bandwidth);
  }
  std::vector<std::string> odd;
  for (const auto& [component, groups] : bandwidths) {
    std::vector<double> medians;
    for (const auto& [name, values] : groups) medians.push_back(median_of(values));
    if (medians.size() < fewest_alike) continue;
    const double usual = median_of(medians);
    for (const auto& [name, values] : groups)
      if (values.size() >= fewest_alike && median_of(values) < clearly_less * usual) odd.push_back(name);
  }
  return odd;
}

/// `figure` of the pairs within groups; 0: there are none.
double median_within_groups(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured,
                            const std::function<double(const MeasuredPair&)>& figure) {
  std::vector<double> values;
  for (const auto& m : measured)
    if (group_name(places[static_cast<std::size_t>(m.pair.a)]) == group_name(places[static_cast<std::size_t>(m.pair.b)]))
      values.push_back(figure(m));
  return values.empty() ? 0 : median_of(std::move(values));
}

}  // namespace

std::vector<NodePair> first_pairs(const std::vector<NodePlace>& places) {
  const auto groups = groups_of(places);
  std::set<NodePair> pairs;
  for (const auto& group : groups) add_ring(group, pairs);
  add_between(groups, pairs);
  return {pairs.begin(), pairs.end()};
}

std::vector<std::vector<NodePair>> rounds_of(std::vector<NodePair> pairs) {
  std::vector<std::vector<NodePair>> rounds;
  while (!pairs.empty()) {
    std::set<int> busy;
    std::vector<NodePair> round, left;
    for (const auto& pair : pairs) {
      const bool free = !busy.contains(pair.a) && !busy.contains(pair.b);
      (free ? round : left).push_back(pair);
      if (free) busy.insert({pair.a, pair.b});
    }
    rounds.push_back(std::move(round));
    pairs = std::move(left);
  }
  return rounds;
}

std::vector<NodePair> further_pairs(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  const auto odd = odd_pairs(places, measured);
  const auto counts = counts_of(places.size(), measured, odd);
  std::set<NodePair> known, further;
  for (const auto& m : measured) known.insert(m.pair);
  std::map<std::string, Group> sound;
  for (int n = 0; n < static_cast<int>(places.size()); ++n)
    if (const auto& c = counts[static_cast<std::size_t>(n)]; c.odd == 0 && c.all > 0)
      sound[group_name(places[static_cast<std::size_t>(n)])].push_back(n);
  for (const auto& pair : odd)
    for (const int end : {pair.a, pair.b}) {
      int found = 0;
      for (const int other : sound[group_name(places[static_cast<std::size_t>(end)])])
        if (found < partners && !known.contains(ordered(end, other)) && further.insert(ordered(end, other)).second) ++found;
    }
  return {further.begin(), further.end()};
}

OddLinks odd_links(const std::vector<NodePlace>& places, const std::vector<MeasuredPair>& measured) {
  const auto odd = odd_pairs(places, measured);
  const auto counts = counts_of(places.size(), measured, odd);
  OddLinks found;
  found.bandwidth = median_within_groups(places, measured, &MeasuredPair::bandwidth);
  found.latency = {median_within_groups(places, measured, [](const MeasuredPair& m) { return m.latency.value; })};
  found.groups = odd_groups(places, measured);
  for (std::size_t n = 0; n < counts.size(); ++n)
    if (counts[n].suspect()) found.nodes.push_back(static_cast<int>(n));
  const auto explained = [&](int end) { return counts[static_cast<std::size_t>(end)].suspect(); };
  for (const auto& pair : odd)
    if (!explained(pair.a) && !explained(pair.b)) found.pairs.push_back(pair);
  return found;
}

}  // namespace flotilla::bench
