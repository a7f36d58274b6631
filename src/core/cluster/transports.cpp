#include "flotilla/cluster/transports.hpp"

#include <algorithm>
#include <map>

#include "device_of.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::cluster {
namespace {

/// A host of some members.
struct Spot {
  const Device* first = nullptr;
  int members = 0;
};

std::vector<Spot> spots_of(const Profile& profile, const std::vector<Rank>& members) {
  std::map<std::string_view, Spot> by_host;
  for (const Rank rank : members) {
    const Device& device = device_of(profile, rank);
    Spot& spot = by_host[device.host];
    if (spot.members++ == 0) spot.first = &device;
  }
  std::vector<Spot> spots;
  for (const auto& [host, spot] : by_host) spots.push_back(spot);
  return spots;
}

bool all_gpus(const Profile& profile, const std::vector<Rank>& members) {
  return std::ranges::all_of(members, [&](Rank rank) {
    const auto* type = find_type(profile, device_of(profile, rank).type);
    return type != nullptr && type->kind == DeviceKind::gpu;
  });
}

bool joins_places(const Profile& profile, Transport transport, LinkLevel level, const std::string& a, const std::string& b) {
  bool elsewhere = false;
  for (const DeviceLink& known : profile.device_links) {
    if (known.transport != transport || known.link.level != level) continue;
    const bool these = (known.link.from == a && known.link.to == b) || (known.link.from == b && known.link.to == a);
    if (these) return known.refusal.empty();
    elsewhere = elsewhere || known.refusal.empty();
  }
  return elsewhere;
}

bool joins_devices(const Profile& profile, Transport transport, const Device& a, const Device& b) {
  return a.zone == b.zone ? joins_places(profile, transport, LinkLevel::zone, a.host, b.host)
                          : joins_places(profile, transport, LinkLevel::wide, a.zone, b.zone);
}

bool refused_whole(const Profile& profile, Transport transport, const std::vector<Rank>& members, bool by_library) {
  return std::ranges::any_of(profile.group_sums, [&](const GroupSum& known) {
    return known.transport == transport && (by_library || !known.by_library) && !known.refusal.empty() &&
           std::ranges::all_of(known.members, [&](const DevicePlace& place) {
             return std::ranges::any_of(members, [&](Rank rank) { return place_of(device_of(profile, rank)) == place; });
           });
  });
}

}  // namespace

std::string_view in_words(Transport transport) {
  static constexpr std::array<std::string_view, transport_count> words{"the hosts' memory", "NCCL", "MPI on device memory"};
  return words[static_cast<std::size_t>(transport)];
}

bool joins(const Profile& profile, Transport transport, const std::vector<Rank>& members, bool by_library) {
  if (transport == Transport::host) return true;
  if (!all_gpus(profile, members) || refused_whole(profile, transport, members, by_library)) return false;
  const auto spots = spots_of(profile, members);
  for (auto one = spots.begin(); one != spots.end(); ++one) {
    const auto& host = one->first->host;
    if (one->members > 1 && !joins_places(profile, transport, LinkLevel::node, host, host)) return false;
    for (auto other = std::next(one); other != spots.end(); ++other)
      if (!joins_devices(profile, transport, *one->first, *other->first)) return false;
  }
  return true;
}

Profile wanting(Profile profile, Transport transport) {
  std::erase_if(profile.device_links, [&](const DeviceLink& known) { return known.transport != transport; });
  std::erase_if(profile.group_sums, [&](const GroupSum& known) { return known.transport != transport; });
  if (transport != Transport::host) profile.wanted_transport = transport;
  return profile;
}

Transport choose_transport(const TransportSeconds& seconds, std::optional<Transport> wanted) {
  const auto of = [&](Transport t) { return seconds[static_cast<std::size_t>(t)]; };
  if (wanted && of(*wanted)) return *wanted;
  auto least = Transport::host;
  for (std::size_t t = 0; t < seconds.size(); ++t)
    if (seconds[t] && of(least) && *seconds[t] < *of(least)) least = static_cast<Transport>(t);
  return least;
}

Profile over(const Profile& profile, Transport transport) {
  FLOTILLA_ASSERT(transport != Transport::host, "links between hosts are the profile's own");
  Profile device_profile = profile;
  for (auto& type : device_profile.device_types) type.to_device = type.to_host = {};
  std::erase_if(device_profile.links, [](const Link& link) { return !link.stated_zone; });  // of a network, whoever uses it
  device_profile.device_links.clear();
  for (const auto& known : profile.device_links)
    if (known.transport == transport && known.refusal.empty()) device_profile.links.push_back(known.link);
  return device_profile;
}

}  // namespace flotilla::cluster
