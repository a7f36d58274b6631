#pragma once
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

/// What joins zones that nobody measured: by how far apart their names say they are.
namespace flotilla::cluster {

/// `cluster`: neither name follows a cloud's convention, as those of a cluster's partitions; `unknown`: one of them does not.
enum class ZoneDistance { cluster, region, continent, world, unknown };

/// By the names of Google Cloud ("us-central1-a"), AWS ("us-east-1a") and Azure ("eastus-1"). Regions are taken for near each other in
/// North America and in Europe alone; elsewhere one prefix spans oceans.
ZoneDistance distance_between(const std::string& zone, const std::string& other);
/// "cluster", "region", "continent", "world", "unknown": in files.
std::string to_string(ZoneDistance);
ZoneDistance parse_zone_distance(const std::string&);  ///< throws Error{bad_input}
std::string in_words(
    ZoneDistance);  ///< "taken for one cluster", "one region", "regions of one continent", "different continents", "distance unknown"

/// A link between two zones, in either direction, that nobody measured.
struct AssumedLink {
  std::string from, to;  ///< zones, in alphabetical order
  ZoneDistance distance = ZoneDistance::unknown;
  BytesPerSecond bandwidth;  ///< of all messages of a node together
  Seconds latency;
  bool operator==(const AssumedLink&) const = default;
};

/// What is assumed at a distance; docs/planning.md has the sources. At an unknown one, and in a cluster of nodes that nobody knows: as in
/// another region of the continent.
AssumedLink assumed_link(ZoneDistance);

/// Adds to `profile` a wide link for every two zones of the places that `measured` has neither a link nor, for all types there, a fit of.
/// Where the names say nothing and `measured` has links between other zones, the slowest of those stands in as ever (link_between). No rate
/// is above what the nodes of the two zones have among themselves; in one cluster it is that. Returns what was assumed. `one_cluster`:
/// all zones are its partitions, whatever their names say.
std::vector<AssumedLink> assume_wide_links(Profile& profile, const Profile& measured, const std::vector<TypeInZone>& places,
                                           bool one_cluster = false);

/// `profile` with this link between two zones, in place of what was measured between them: between nodes of any types, one message at a
/// time at full rate, more share it. It holds both ways unless the profile has a link from `link.to` to `link.from`.
void set_wide_link(Profile& profile, const std::string& from, const std::string& to, BytesPerSecond bandwidth, Seconds latency);
/// Takes out what was measured between two zones, either way.
void forget_wide_links(Profile& profile, const std::string& zone, const std::string& other);

}  // namespace flotilla::cluster
