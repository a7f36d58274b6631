#include "candidate_groups.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "places.hpp"

namespace flotilla::probe {
namespace {

constexpr std::size_t least_members = 3;  // two are a pair
constexpr std::size_t most_of_a_kind = 4, most_members = 64;

using Group = std::vector<Rank>;

/// The types of a host's GPUs, one after the other.
std::string kind_of(const std::vector<cluster::Device>& devices, const std::string& host) {
  std::multiset<std::string> types;
  for (const auto& device : devices)
    if (device.host == host) types.insert(device.type);
  std::string kind;
  for (const auto& type : types) kind += type + '\n';
  return kind;
}

std::vector<Group> inside_hosts(const std::vector<cluster::Device>& devices, std::size_t least) {
  std::vector<Group> groups;
  std::set<std::string> kinds;
  for (const auto& host : places(devices, [](const auto& d) { return d.host; }))
    if (host.ranks.size() >= least && kinds.insert(kind_of(devices, host.name)).second) groups.push_back(host.ranks);
  return groups;
}

std::vector<Group> one_of_each_host(const std::vector<cluster::Device>& devices, std::size_t least) {
  std::vector<Group> groups;
  for (const auto& zone : places(devices, [](const auto& d) { return d.zone; })) {
    std::vector<cluster::Device> there;
    std::ranges::copy_if(devices, std::back_inserter(there), [&](const auto& d) { return d.zone == zone.name; });
    Group firsts;
    for (const auto& host : places(there, [](const auto& d) { return d.host; })) firsts.push_back(host.ranks.front());
    if (firsts.size() >= least) groups.push_back(std::move(firsts));
  }
  return groups;
}

Group all_of(const std::vector<cluster::Device>& devices) {
  Group all;
  for (const auto& device : devices) all.push_back(device.rank);
  return all;
}

}  // namespace

std::vector<std::vector<Rank>> candidate_groups(const std::vector<cluster::Device>& on_gpus) {
  std::vector<Group> candidates;
  const auto add = [&](Group group) {
    if (group.size() > most_members) group.resize(most_members);
    std::ranges::sort(group);
    if (group.size() >= least_members && std::ranges::find(candidates, group) == candidates.end()) candidates.push_back(std::move(group));
  };
  for (auto groups : {inside_hosts(on_gpus, least_members), one_of_each_host(on_gpus, least_members)}) {
    if (groups.size() > most_of_a_kind) groups.resize(most_of_a_kind);
    for (auto& group : groups) add(std::move(group));
  }
  add(all_of(on_gpus));
  return candidates;
}

std::vector<std::vector<Rank>> candidate_pairs(const std::vector<cluster::Device>& on_gpus) {
  std::vector<Group> pairs;
  for (auto groups : {inside_hosts(on_gpus, 2), one_of_each_host(on_gpus, 2)}) {
    if (groups.size() > most_of_a_kind) groups.resize(most_of_a_kind);
    for (auto& group : groups) {
      group.resize(2);
      std::ranges::sort(group);
      pairs.push_back(std::move(group));
    }
  }
  return pairs;
}

}  // namespace flotilla::probe
