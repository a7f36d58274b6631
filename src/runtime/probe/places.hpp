#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::probe {

/// A host or a zone and the ranks there, in order.
struct HostOrZone {
  std::string name;
  std::vector<Rank> ranks;
};

/// In order of the first rank that is there.
template <class NameOf>
std::vector<HostOrZone> places(const std::vector<cluster::Device>& devices, NameOf name_of) {
  std::vector<HostOrZone> found;
  std::map<std::string, std::size_t> index;
  for (const auto& device : devices) {
    const auto [at, fresh] = index.emplace(name_of(device), found.size());
    if (fresh) found.push_back({at->first, {}});
    found[at->second].ranks.push_back(device.rank);
  }
  return found;
}

}  // namespace flotilla::probe
