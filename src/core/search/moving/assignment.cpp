#include "assignment.hpp"

#include <algorithm>
#include <limits>
#include <queue>

namespace flotilla::search {
namespace {

constexpr std::int64_t unreached = std::numeric_limits<std::int64_t>::max() / 4;

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Begin, sources, sinks, end. Arcs lie in pairs: an arc and what may flow back.
class FlowNetwork {
 public:
  FlowNetwork(const std::vector<std::int64_t>& sources, const std::vector<std::int64_t>& sinks, const std::vector<Lane>& lanes)
      : end_{static_cast<int>(sources.size() + sinks.size()) + 1}, arcs_of_(at(end_) + 1), potential_(at(end_) + 1) {
    const auto sink = [&](int i) { return static_cast<int>(sources.size()) + 1 + i; };
    for (int i = 0; i < static_cast<int>(sources.size()); ++i) add(0, i + 1, sources[at(i)], 0);
    for (int i = 0; i < static_cast<int>(sinks.size()); ++i) add(sink(i), end_, sinks[at(i)], 0);
    for (const Lane& lane : lanes) {
      add(lane.source + 1, sink(lane.sink), std::min(sources[at(lane.source)], sinks[at(lane.sink)]), -lane.gain);
      potential_[at(sink(lane.sink))] = std::min(potential_[at(sink(lane.sink))], -lane.gain);
    }
    potential_[at(end_)] = std::ranges::min(potential_);
  }

  /// Flow along paths of most gain, until no path gains.
  std::int64_t largest_gain() {
    std::int64_t sum = 0;
    while (find_path()) {
      const std::int64_t gain = potential_[0] - potential_[at(end_)];
      if (gain <= 0) break;
      sum += gain * push();
    }
    return sum;
  }

 private:
  struct Arc {
    int to;
    std::int64_t sub_pool, cost;
  };

  void add(int from, int to, std::int64_t sub_pool, std::int64_t cost) {
    arcs_of_[at(from)].push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({to, sub_pool, cost});
    arcs_of_[at(to)].push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({from, 0, -cost});
  }

  /// Dijkstra over costs that the potentials make positive; ends at the end, whose distance bounds the others'.
  bool find_path() {
    std::vector<std::int64_t> distance(arcs_of_.size(), unreached);
    reached_by_.assign(arcs_of_.size(), -1);
    using Entry = std::pair<std::int64_t, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    distance[0] = 0;
    open.push({0, 0});
    while (!open.empty() && open.top().second != end_) {
      const auto [far, node] = open.top();
      open.pop();
      if (far > distance[at(node)]) continue;
      for (const int a : arcs_of_[at(node)]) {
        const Arc& arc = arcs_[at(a)];
        const std::int64_t next = far + arc.cost + potential_[at(node)] - potential_[at(arc.to)];
        if (arc.sub_pool <= 0 || next >= distance[at(arc.to)]) continue;
        distance[at(arc.to)] = next;
        reached_by_[at(arc.to)] = a;
        open.push({next, arc.to});
      }
    }
    if (open.empty()) return false;
    for (std::size_t node = 0; node < potential_.size(); ++node) potential_[node] += std::min(distance[node], distance[at(end_)]);
    return true;
  }

  std::int64_t push() {
    std::int64_t units = unreached;
    const auto along_path = [&](const auto& visit) {
      for (int node = end_; node != 0; node = arcs_[at(reached_by_[at(node)] ^ 1)].to) visit(reached_by_[at(node)]);
    };
    along_path([&](int a) { units = std::min(units, arcs_[at(a)].sub_pool); });
    along_path([&](int a) { arcs_[at(a)].sub_pool -= units, arcs_[at(a ^ 1)].sub_pool += units; });
    return units;
  }

  int end_;
  std::vector<Arc> arcs_;
  std::vector<std::vector<int>> arcs_of_;  ///< by node
  std::vector<std::int64_t> potential_;
  std::vector<int> reached_by_;  ///< by node: the arc that leads to it
};

}  // namespace

std::int64_t largest_gain(const std::vector<std::int64_t>& sources, const std::vector<std::int64_t>& sinks,
                          const std::vector<Lane>& lanes) {
  return FlowNetwork{sources, sinks, lanes}.largest_gain();
}

}  // namespace flotilla::search
