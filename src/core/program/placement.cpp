#include "flotilla/program/placement.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "flotilla/base/error.hpp"

namespace flotilla::program {
namespace {

int number_of(std::map<std::string_view, int>& numbers, std::string_view name) {
  return numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second;
}

/// By replica what its members share, in every group.
using Signatures = std::vector<std::vector<int>>;

/// Numbers equal signatures by the first that has them.
std::vector<int> numbered(const Signatures& signatures) {
  std::map<std::vector<int>, int> numbers;
  std::vector<int> teams;
  for (const auto& signature : signatures) teams.push_back(numbers.try_emplace(signature, static_cast<int>(numbers.size())).first->second);
  return teams;
}

int count_of(const std::vector<int>& teams) { return *std::ranges::max_element(teams) + 1; }

}  // namespace

Placement placement_of(const std::vector<cluster::Device>& devices) {
  Placement placement;
  std::size_t ranks = 0;
  for (const auto& device : devices) ranks = std::max(ranks, device.rank.valid() ? device.rank.index() + 1 : 0);
  placement.node.resize(ranks);
  placement.zone.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) placement.node[r] = -1 - static_cast<int>(r);  // alone, until a device says where it is
  std::map<std::string_view, int> hosts, zones;
  for (const auto& device : devices) {
    if (!device.rank.valid()) continue;
    if (!device.host.empty()) placement.node[device.rank.index()] = number_of(hosts, device.host);
    placement.zone[device.rank.index()] = number_of(zones, device.zone);
  }
  return placement;
}

Placement placement_of(const Placement& all, const std::vector<Rank>& ranks) {
  Placement placement;
  if (!std::ranges::all_of(ranks, [&](Rank rank) { return all.knows(rank); })) return placement;
  for (Rank rank : ranks) {
    placement.node.push_back(all.node[rank.index()]);
    placement.zone.push_back(all.zone[rank.index()]);
  }
  return placement;
}

Teams teams_of(const std::vector<std::vector<Rank>>& groups, const Placement& placement) {
  if (groups.empty() || groups.front().size() < 3) return {};  // two alone have nobody to sum with first
  const std::size_t replicas = groups.front().size();
  Signatures nodes(replicas), zones(replicas);
  for (const auto& group : groups) {
    FLOTILLA_ASSERT(group.size() == replicas, group.size(), " members for ", replicas, " replicas");
    for (std::size_t r = 0; r < replicas; ++r) {
      if (!placement.knows(group[r])) return {};
      zones[r].push_back(placement.zone[group[r].index()]);
      nodes[r].insert(nodes[r].end(), {zones[r].back(), placement.node[group[r].index()]});
    }
  }
  Teams teams;
  auto below = static_cast<int>(replicas);
  for (const auto& level : {numbered(nodes), numbered(zones)}) {
    const int count = count_of(level);
    if (count < 2 || count == below) continue;
    teams.push_back(level);
    below = count;
  }
  return teams;
}

}  // namespace flotilla::program
