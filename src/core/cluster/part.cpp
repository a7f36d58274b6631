#include <algorithm>
#include <map>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {
namespace {

std::map<std::string, int> ranks_by_host(const std::vector<Device>& devices) {
  std::map<std::string, int> count;
  for (const auto& device : devices) ++count[device.host];
  return count;
}

bool measured(const Profile& profile, Device device) {
  return std::ranges::any_of(profile.devices, [&](const Device& theirs) {
    device.rank = theirs.rank;
    return device == theirs;
  });
}

}  // namespace

std::optional<Profile> part_of(const Profile& profile, const std::vector<Device>& devices) {
  if (!std::ranges::all_of(devices, [&](const Device& device) { return measured(profile, device); })) return std::nullopt;
  // Ranks of a host share its memory, caches and CPUs: with fewer or more of them each is another device.
  const auto then = ranks_by_host(profile.devices);
  for (const auto& [host, count] : ranks_by_host(devices))
    if (then.at(host) != count) return std::nullopt;
  Profile part = profile;
  part.devices = devices;
  const auto gone = [&](const std::string& type) { return std::ranges::find(devices, type, &Device::type) == devices.end(); };
  std::erase_if(part.device_types, [&](const DeviceType& type) { return gone(type.name); });
  std::erase_if(part.operation_times, [&](const OperationTime& time) { return gone(time.device_type); });
  return part;
}

}  // namespace flotilla::cluster
