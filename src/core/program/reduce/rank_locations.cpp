#include "flotilla/program/rank_locations.hpp"

#include <algorithm>
#include <memory_resource>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "flotilla/base/error.hpp"

namespace flotilla::program {
namespace {

int number_of(std::unordered_map<std::string_view, int>& numbers, std::string_view name) {
  return numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second;
}

/// Parts subgroups whose members' ranks have unlike numbers; subgroups are numbered by their first members.
void part(std::vector<int>& subgroups, const std::vector<Rank>& group, const std::vector<int>& number_of_rank) {
  std::pmr::monotonic_buffer_resource room;  // an allocation for each subgroup would take longer than all else
  std::pmr::unordered_map<std::uint64_t, int> numbers{&room};
  std::uint64_t last = 0;
  int number = -1;
  for (std::size_t r = 0; r < subgroups.size(); ++r) {
    const auto rank_number = static_cast<std::uint32_t>(number_of_rank[group[r].index()]);
    const std::uint64_t key = static_cast<std::uint64_t>(subgroups[r]) << 32 | rank_number;
    if (number < 0 || key != last) number = numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second;
    last = key;
    subgroups[r] = number;
  }
}

int count_of(const std::vector<int>& subgroups) { return *std::ranges::max_element(subgroups) + 1; }

}  // namespace

RankLocations placement_of(const std::vector<cluster::Device>& devices) {
  RankLocations placement;
  std::size_t ranks = 0;
  for (const auto& device : devices) ranks = std::max(ranks, device.rank.valid() ? device.rank.index() + 1 : 0);
  placement.node.resize(ranks);
  placement.zone.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) placement.node[r] = -1 - static_cast<int>(r);  // alone, until a device says where it is
  std::unordered_map<std::string_view, int> hosts, zones;
  const cluster::Device* before = nullptr;  // devices of a host stand together, as a rule
  int host = -1, zone = -1;
  for (const auto& device : devices) {
    if (!device.rank.valid()) continue;
    if (!device.host.empty()) {
      if (!before || device.host != before->host) host = number_of(hosts, device.host);
      placement.node[device.rank.index()] = host;
    }
    if (!before || device.zone != before->zone) zone = number_of(zones, device.zone);
    placement.zone[device.rank.index()] = zone;
    before = &device;
  }
  return placement;
}

RankLocations placement_of(const RankLocations& all, const std::vector<Rank>& ranks) {
  RankLocations placement;
  if (!std::ranges::all_of(ranks, [&](Rank rank) { return all.knows(rank); })) return placement;
  for (Rank rank : ranks) {
    placement.node.push_back(all.node[rank.index()]);
    placement.zone.push_back(all.zone[rank.index()]);
  }
  return placement;
}

SubgroupLevels subgroups_of(const std::vector<std::vector<Rank>>& groups, const RankLocations& placement) {
  if (groups.empty() || groups.front().size() < 3) return {};  // two alone have nobody to sum with first
  const std::size_t replicas = groups.front().size();
  for (const auto& group : groups) {
    FLOTILLA_ASSERT(group.size() == replicas, group.size(), " members for ", replicas, " replicas");
    if (!std::ranges::all_of(group, [&](Rank rank) { return placement.knows(rank); })) return {};
  }
  std::vector<int> zones(replicas, 0);
  for (const auto& group : groups) part(zones, group, placement.zone);
  std::vector<int> nodes = zones;
  for (const auto& group : groups) part(nodes, group, placement.node);
  SubgroupLevels subgroups;
  auto below = static_cast<int>(replicas);
  for (auto* level : {&nodes, &zones}) {
    const int count = count_of(*level);
    if (count < 2 || count == below) continue;
    subgroups.push_back(std::move(*level));
    below = count;
  }
  return subgroups;
}

}  // namespace flotilla::program
