#include "device_inventory.hpp"

#include <algorithm>
#include <set>

namespace flotilla::session {

std::vector<journal::InventoryEntry> device_inventory(const cluster::Profile& profile, const std::vector<Rank>& ranks) {
  std::vector<journal::InventoryEntry> groups;
  std::set<std::string> hosts;
  for (Rank rank : ranks) {
    const auto& device = profile.devices.at(rank.index());
    auto group = std::ranges::find_if(groups, [&](const auto& g) { return g.device_type == device.type && g.zone == device.zone; });
    if (group == groups.end()) group = groups.insert(groups.end(), {device.type, device.zone, 0, 0});
    ++group->devices;
    if (hosts.insert(device.host).second) ++group->hosts;
  }
  return groups;
}

}  // namespace flotilla::session
