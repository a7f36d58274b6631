#include "host_permutation.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace flotilla::session {
namespace {

/// The plan's devices by host, ascending.
using Hosts = std::map<std::string, std::vector<Rank>>;

Hosts hosts_of(const plan::Plan& plan, const cluster::Profile& profile) {
  std::set<Rank> ranks;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) ranks.insert(replica.devices.begin(), replica.devices.end());
  Hosts hosts;
  for (const Rank rank : ranks) hosts[profile.devices.at(rank.index()).host].push_back(rank);
  return hosts;
}

bool alike(const cluster::Profile& profile, const std::vector<Rank>& a, const std::vector<Rank>& b) {
  return std::ranges::equal(a, b, [&](Rank x, Rank y) {
    const auto &one = profile.devices.at(x.index()), &other = profile.devices.at(y.index());
    return one.type == other.type && one.zone == other.zone;
  });
}

plan::Plan swapped(plan::Plan plan, const std::vector<Rank>& a, const std::vector<Rank>& b) {
  std::map<Rank, Rank> instead;
  for (std::size_t i = 0; i < a.size(); ++i) instead[a[i]] = b[i], instead[b[i]] = a[i];
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas)
      for (auto& device : replica.devices)
        if (const auto found = instead.find(device); found != instead.end()) device = found->second;
  return plan;
}

}  // namespace

std::vector<plan::Plan> host_permutations(const plan::Plan& plan, const cluster::Profile& profile,
                                          std::span<const cluster::SlowPair> slow) {
  const auto hosts = hosts_of(plan, profile);
  std::vector<plan::Plan> found;
  const auto try_swap = [&](const std::string& end, const std::string& other_end) {
    const auto here = hosts.find(end);
    if (here == hosts.end() || end == other_end) return;
    for (const auto& [host, ranks] : hosts) {
      if (host == end || host == other_end || !alike(profile, here->second, ranks)) continue;
      auto host_permutation = swapped(plan, here->second, ranks);
      if (std::ranges::find(found, host_permutation) == found.end()) found.push_back(std::move(host_permutation));
    }
  };
  for (const auto& pair : slow) {
    const auto &a = profile.devices.at(pair.a.index()).host, &b = profile.devices.at(pair.b.index()).host;
    try_swap(a, b);
    try_swap(b, a);
  }
  return found;
}

}  // namespace flotilla::session
