#include "library_collective.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace flotilla::simulate {
namespace {

/// A group's members host by host, and the routes between neighbours in that order.
struct Ring {
  std::vector<const Route*> inside, between;  ///< distinct; neighbours of one host, of two
  int members = 0, hosts = 0;
  int most_of_a_host = 0, least_of_a_host = 0;
  int crossings = 1;                         ///< neighbours by which the ring comes into one zone by its uplink
  std::optional<Paths::NodeWays> node_ways;  ///< of one host whose devices no switch joins

  Seconds slowest(const std::vector<const Route*>& routes, Bytes size, const Flows& flows) const {
    Seconds time;
    const Flows here{flows.cards, flows.out * crossings, flows.in * crossings};
    for (const Route* route : routes) time = std::max(time, route->time(size, here));
    return time;
  }
  Seconds step(Bytes size, const Flows& flows) const { return std::max(slowest(inside, size, flows), slowest(between, size, flows)); }
  /// Over so many links at once, each a part of the bytes.
  Seconds over_links(Bytes size, int links, const Flows& flows) const {
    return step({0}, flows) + Seconds{static_cast<double>(size.count) / (links * node_ways->each.value)};
  }
  /// A step of rings, of trees. Without a switch: over links that make whole rings, else over those that make chains.
  bool has_rings() const { return !node_ways || node_ways->shape.rings > 0 || node_ways->shape.chains == 0; }
  Seconds ring_step(Bytes size, const Flows& flows) const {
    return node_ways && node_ways->shape.rings > 0 ? over_links(size, node_ways->shape.rings, flows) : step(size, flows);
  }
  Seconds tree_step(Bytes size, const Flows& flows) const {
    return node_ways && node_ways->shape.chains > 0 ? over_links(size, node_ways->shape.chains, flows) : step(size, flows);
  }
};

void add_route(std::vector<const Route*>& routes, const Route& route) {
  if (std::ranges::find(routes, &route) == routes.end()) routes.push_back(&route);
}

Ring ring_of(Paths& paths, const program::Group& group) {
  std::map<int, std::vector<Rank>> hosts;
  for (Rank rank : group.members) hosts[paths.host(rank)].push_back(rank);
  Ring ring;
  ring.members = static_cast<int>(group.members.size());
  ring.hosts = static_cast<int>(hosts.size());
  ring.least_of_a_host = ring.members;
  std::map<int, int> crossings;  // by uplink
  const std::vector<Rank>* previous = &std::prev(hosts.end())->second;
  for (const auto& [host, ranks] : hosts) {
    const int here = static_cast<int>(ranks.size());
    ring.most_of_a_host = std::max(ring.most_of_a_host, here);
    ring.least_of_a_host = std::min(ring.least_of_a_host, here);
    if (here > 1) add_route(ring.inside, paths.route(paths.between(ranks[0], ranks[1])));
    if (hosts.size() > 1) add_route(ring.between, paths.route(paths.between(previous->back(), ranks.front())));
    const int uplink = paths.uplink(ranks.front());
    if (uplink >= 0 && paths.uplink(previous->back()) != uplink) ring.crossings = std::max(ring.crossings, ++crossings[uplink]);
    previous = &ranks;
  }
  if (ring.hosts == 1) ring.node_ways = paths.node_ways(group.members);
  return ring;
}

int rounds(int members) {
  int count = 0;
  for (int reached = 1; reached < members; reached *= 2) ++count;
  return count;
}

Bytes part(Bytes bytes, int of) { return {(bytes.count + of - 1) / of}; }

/// Once along a chain, all the bytes.
Seconds by_chain(const Ring& ring, Bytes bytes, const Flows& flows) {
  return static_cast<double>(ring.members - 2) * ring.step({0}, flows) + ring.tree_step(bytes, flows);
}

/// Once round the ring: a reduce-scatter or an all-gather.
Seconds around(const Ring& ring, Bytes bytes, const Flows& flows) {
  if (!ring.has_rings()) return by_chain(ring, bytes, flows);
  return static_cast<double>(ring.members - 1) * ring.ring_step(part(bytes, ring.members), flows);
}

Seconds by_trees(const Ring& ring, Bytes bytes, const Flows& flows) {
  return 2.0 * (rounds(ring.members) - 1) * ring.step({0}, flows) + 2.0 * ring.tree_step(bytes, flows);
}

Seconds by_nodes(const Ring& ring, Bytes bytes, const Flows& flows) {
  const int local = ring.most_of_a_host;
  const Bytes share = part(bytes, ring.least_of_a_host);
  const int rings = ring.least_of_a_host;
  const Flows at_once{flows.cards * rings, flows.out * rings, flows.in * rings};
  const Seconds inside = static_cast<double>(local - 1) * ring.slowest(ring.inside, part(bytes, local), flows);
  return inside + static_cast<double>(ring.hosts - 1) * ring.slowest(ring.between, part(share, ring.hosts), at_once);
}

/// Each member sends what it has once, and its part of the sum to all; as much comes back, the other way round.
std::optional<Seconds> by_switch(Paths& paths, const program::Group& group, const Ring& ring, Bytes bytes, const Flows& flows) {
  const BytesPerSecond rate = ring.hosts == 1 ? paths.switch_sums(group.members) : BytesPerSecond{};
  if (!(rate.value > 0)) return {};
  return 2.0 * ring.step({0}, flows) + (bytes + part(bytes, ring.members)) / rate;
}

/// Half of an all-reduce, the faster way.
Seconds half(const Ring& ring, Bytes bytes, const Flows& flows) {
  const Seconds time = around(ring, bytes, flows);
  return ring.hosts > 1 && ring.most_of_a_host > 1 ? std::min(time, by_nodes(ring, bytes, flows)) : time;
}

/// A member's share of what crosses hosts, `times` over, at the rate that the group reaches at most.
Seconds at_most_rate(const Ring& ring, const program::Group& group, Bytes bytes, double times) {
  if (ring.hosts < 2 || !(group.most.value > 0)) return {};
  return {times * (ring.members - 1) / ring.members * static_cast<double>(bytes.count) / group.most.value};
}

}  // namespace

Seconds library_all_reduce(Paths& paths, const program::Group& group, Bytes bytes, const Flows& flows) {
  const Ring ring = ring_of(paths, group);
  Seconds time = std::min(2.0 * half(ring, bytes, flows), by_trees(ring, bytes, flows));
  if (const auto switched = by_switch(paths, group, ring, bytes, flows)) time = std::min(time, *switched);
  return std::max(time, at_most_rate(ring, group, bytes, 2));
}

Seconds library_half(Paths& paths, const program::Group& group, Bytes bytes, const Flows& flows) {
  const Ring ring = ring_of(paths, group);
  return std::max(half(ring, bytes, flows), at_most_rate(ring, group, bytes, 1));
}

Seconds library_exchange(Paths& paths, const program::Group& group, Bytes bytes, const Flows& flows) {
  const Ring ring = ring_of(paths, group);
  return static_cast<double>(rounds(ring.members)) * ring.step(bytes, flows);
}

}  // namespace flotilla::simulate
