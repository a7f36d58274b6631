#include "flotilla/search/binding.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace flotilla::search {
namespace {

/// Free ranks of one type and zone by host, hosts in the order of their first ranks.
using Hosts = std::vector<std::vector<Rank>>;

std::map<std::pair<std::string, std::string>, Hosts> free_devices(const cluster::Profile& profile) {
  std::map<std::pair<std::string, std::string>, Hosts> free;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> place;
  for (const auto& device : profile.devices) {
    auto& hosts = free[{device.type, device.zone}];
    const auto [found, fresh] = place.try_emplace({device.type, device.zone, device.host}, hosts.size());
    if (fresh) hosts.emplace_back();
    hosts[found->second].push_back(device.rank);
  }
  return free;
}

/// All ranks of whole hosts, the first ones that are untouched.
std::vector<Rank> take_hosts(Hosts& hosts, std::size_t wanted, std::size_t host_size) {
  std::vector<Rank> taken;
  for (auto& host : hosts)
    if (host.size() == host_size && taken.size() < wanted) {
      taken.insert(taken.end(), host.begin(), host.end());
      host.clear();
    }
  return taken.size() == wanted ? taken : std::vector<Rank>{};
}

/// The lowest ranks of the first host that has room; a host that they fill exactly comes first, so that large groups find theirs. Groups
/// wider than the hosts get whole ones.
std::vector<Rank> take(Hosts& hosts, int count, std::size_t host_size) {
  const auto wanted = static_cast<std::size_t>(count);
  if (wanted > host_size) return take_hosts(hosts, wanted, host_size);
  auto host = wanted == 1 ? hosts.end() : std::ranges::find_if(hosts, [&](const auto& ranks) { return ranks.size() == wanted; });
  if (host == hosts.end()) host = std::ranges::find_if(hosts, [&](const auto& ranks) { return ranks.size() >= wanted; });
  if (host == hosts.end()) return {};
  std::vector<Rank> taken(host->begin(), host->begin() + count);
  host->erase(host->begin(), host->begin() + count);
  return taken;
}

}  // namespace

Pool pool_of_devices(const cluster::Profile& profile) {
  std::map<std::tuple<std::string, std::string, std::string>, int> on_host;  // type, zone, host
  for (const auto& device : profile.devices) ++on_host[{device.type, device.zone, device.host}];
  std::map<std::tuple<std::string, std::string, int>, int> count;
  for (const auto& [place, devices] : on_host) count[{std::get<0>(place), std::get<1>(place), devices}] += devices;
  Pool pool;
  for (const auto& [place, devices] : count) pool.push_back({std::get<0>(place), std::get<1>(place), devices, std::get<2>(place)});
  return pool;
}

std::optional<plan::Plan> on_devices(plan::Plan plan, const cluster::Profile& profile) {
  auto free = free_devices(profile);
  std::map<std::pair<std::string, std::string>, std::size_t> sizes;  // of the hosts, when all are free
  for (const auto& [place, hosts] : free)
    for (const auto& host : hosts) sizes[place] = std::max(sizes[place], host.size());
  // Large groups first: what is left over serves small ones.
  std::vector<plan::Replica*> order;
  const auto own = static_cast<std::size_t>(plan::own_stages(plan));
  for (std::size_t s = 0; s < own; ++s)
    for (auto& replica : plan.stages[s].replicas) order.push_back(&replica);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->tensor_parallel > b->tensor_parallel; });
  for (plan::Replica* replica : order) {
    const std::pair place{replica->device_type, replica->zone};
    replica->devices = take(free[place], replica->tensor_parallel, sizes[place]);
    if (replica->devices.empty()) return std::nullopt;
  }
  for (std::size_t s = own; s < plan.stages.size(); ++s) plan.stages[s].replicas = plan.stages[s % own].replicas;
  if (!plan::validate(plan).empty()) return std::nullopt;
  return plan;
}

plan::Plan unbound(plan::Plan plan) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.devices.clear();
  return plan;
}

}  // namespace flotilla::search
