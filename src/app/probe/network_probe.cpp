#include "app/probe/network_probe.hpp"

#include <algorithm>

#include "flotilla/bench/fabric.hpp"
#include "flotilla/fabric/fabric.hpp"

namespace flotilla::app {
namespace {

/// Hosts in the ranks' order, and the ranks of each.
struct Hosts {
  std::vector<bench::NodePlace> places;
  std::vector<std::vector<Rank>> ranks;
};

Hosts hosts_of(const std::vector<cluster::Device>& devices) {
  Hosts hosts;
  for (const auto& device : devices) {
    const auto known = std::ranges::find(hosts.places, device.host, &bench::NodePlace::host);
    const auto index = static_cast<std::size_t>(known - hosts.places.begin());
    if (known == hosts.places.end()) {
      hosts.places.push_back({device.host, device.zone, ""});
      hosts.ranks.emplace_back();
    }
    hosts.ranks[index].push_back(device.rank);
  }
  return hosts;
}

using Round = std::vector<fabric::LinkPair>;

std::vector<Round> rounds_between(const Hosts& hosts) {
  const auto first = [&](int host) { return hosts.ranks[static_cast<std::size_t>(host)].front(); };
  std::vector<Round> rounds;
  Round inside;
  for (const auto& ranks : hosts.ranks)
    if (ranks.size() > 1) inside.push_back({ranks[0], ranks[1]});
  if (!inside.empty()) rounds.push_back(std::move(inside));
  for (const auto& pairs : bench::rounds_of(bench::first_pairs(hosts.places))) {
    auto& round = rounds.emplace_back();
    for (const auto& pair : pairs) round.push_back({first(pair.a), first(pair.b)});
  }
  return rounds;
}

}  // namespace

std::vector<bench::FabricLink> measure_network(const comm::World& world, const std::vector<cluster::Device>& devices, Seconds time,
                                               Seconds deadline) {
  std::vector<std::string> host_of_rank;
  for (const auto& device : devices) host_of_rank.push_back(device.host);
  const auto rounds = rounds_between(hosts_of(devices));
  const auto slice = mpi::broadcast_value(world.control(), fabric::slice_for(time, rounds.size()), 0, deadline);
  return bench::fabric_links(fabric::measure_in_rounds(world, rounds, host_of_rank, slice, deadline));
}

}  // namespace flotilla::app
