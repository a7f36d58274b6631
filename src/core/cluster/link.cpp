#include <algorithm>
#include <array>

#include "device_of.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::cluster {

const Device& device_of(const Profile& profile, Rank rank) {
  // Devices stand by rank in a profile; a hand-edited one may not.
  if (rank.valid() && rank.index() < profile.devices.size() && profile.devices[rank.index()].rank == rank)
    return profile.devices[rank.index()];
  const auto found = std::ranges::find(profile.devices, rank, &Device::rank);
  FLOTILLA_REQUIRE(found != profile.devices.end(), ErrorKind::bad_input, "the cluster profile lists no device for rank ", rank, "; it has ",
                   profile.devices.size(), " devices; measure again with 'flotilla probe'");
  return *found;
}

namespace {

bool joins_types(const Link& link, const std::string& a, const std::string& b) {
  return (link.from == a && link.to == b) || (link.from == b && link.to == a);
}

/// The ends of a link as its level names them, best first: a place that was measured, one measured the other way, a kind of device.
struct Ends {
  LinkLevel level;
  const std::string &from, &to, &from_type, &to_type;

  /// 0: another pair's link.
  int match(const Link& link) const {
    if (link.stated_zone) return 0;
    if (link.from == from && link.to == to) return 3;
    if (link.from == to && link.to == from) return 2;
    return joins_types(link, from_type, to_type) ? 1 : 0;
  }
};

Ends ends(const Device& a, const Device& b) {
  if (a.host == b.host) return {LinkLevel::node, a.host, b.host, a.type, b.type};
  if (a.zone == b.zone) return {LinkLevel::zone, a.host, b.host, a.type, b.type};
  return {LinkLevel::wide, a.zone, b.zone, a.type, b.type};
}

constexpr std::array<const char*, 3> level_names{"within a host", "between the hosts of a zone", "between zones"};
constexpr Bytes reference_size{1 << 20};  // where links of one level are compared

Seconds time_of(const Link& link, const std::vector<LinkPiece>& pieces, Bytes size) {
  FLOTILLA_REQUIRE(!pieces.empty(), ErrorKind::internal, "the link from ", link.from, " to ", link.to, " has no pieces");
  const auto after = std::ranges::upper_bound(pieces, size, {}, &LinkPiece::from);
  const LinkPiece& piece = after == pieces.begin() ? *after : *(after - 1);
  return piece.latency + size / piece.bandwidth;
}

/// Null where there is none.
const Link* slowest_of(const Profile& profile, LinkLevel level) {
  const Link* slowest = nullptr;
  for (const Link& link : profile.links)
    if (link.level == level && !link.stated_zone &&
        (!slowest || time_of(link, link.pieces, reference_size) > time_of(*slowest, slowest->pieces, reference_size)))
      slowest = &link;
  return slowest;
}

}  // namespace

Seconds transfer_time(const Link& link, Bytes size) { return time_of(link, link.pieces, size); }

Seconds sum_time(const Link& link, Bytes size) { return time_of(link, link.sum_pieces, size); }

const Link* stated_link(const Profile& profile, const Device& a, const Device& b) {
  if (a.zone != b.zone || a.host == b.host) return nullptr;
  const auto found = std::ranges::find_if(profile.links, [&](const Link& link) {
    return link.stated_zone == a.zone && (link.from.empty() || joins_types(link, a.type, b.type));
  });
  return found == profile.links.end() ? nullptr : &*found;
}

const Link& link_between(const Profile& profile, Rank a, Rank b) {
  const Device &one = device_of(profile, a), &other = device_of(profile, b);
  if (const auto* stated = stated_link(profile, one, other)) return *stated;
  const Ends wanted = ends(one, other);
  const Link* best = nullptr;
  int best_match = 0;
  for (const Link& link : profile.links) {
    if (link.level != wanted.level) continue;
    const int match = wanted.match(link);
    if (match == 3) return link;
    if (match > best_match) best = &link, best_match = match;
  }
  if (best) return *best;
  const Link* slowest = slowest_of(profile, wanted.level);
  FLOTILLA_REQUIRE(slowest, ErrorKind::bad_input, "the cluster profile holds no link ", level_names[static_cast<std::size_t>(wanted.level)],
                   ", which ranks ", a, " (", wanted.from, ") and ", b, " (", wanted.to, ") need; measure again with 'flotilla probe'");
  return *slowest;
}

const Uplink* uplink_of(const Profile& profile, const std::string& zone) {
  const auto found = std::ranges::find(profile.uplinks, zone, &Uplink::zone);
  return found == profile.uplinks.end() ? nullptr : &*found;
}

}  // namespace flotilla::cluster
