#include "flotilla/cluster/zones.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/cluster/node_networks.hpp"

namespace flotilla::cluster {
namespace {

const std::array<std::string, 5> distance_names{"cluster", "region", "continent", "world", "unknown"};  // in the order of ZoneDistance

constexpr double assumed_error = 0.5;  // relative, of transfer times over a link that nobody measured

/// What is assumed at a distance: messages of a node that move at full rate at once, and that rate.
struct Assumption {
  int lanes;
  BytesPerSecond lane;
  Seconds latency;
};

/// Of one region and of regions of a continent the rates are those that the Sailor artifact measured with nodes of four A100 on Google
/// Cloud (Strati et al., SOSP 2025: us-central1-a to -b, us-central1 to us-west1, messages of 256 MB). The others are assumptions.
Assumption assumption_for(ZoneDistance distance) {
  switch (distance) {
    case ZoneDistance::region: return {4, {1.5e9}, {1e-3}};
    case ZoneDistance::world: return {2, {0.125e9}, {75e-3}};
    case ZoneDistance::cluster:
    case ZoneDistance::continent:
    case ZoneDistance::unknown: break;
  }
  return {2, {0.4e9}, {20e-3}};
}

/// Where a zone is: "us-central1" and "america".
struct Place {
  std::string region, continent;
};

/// Regions of one word before the first '-' lie on one continent only where this says so; "" for the others.
struct Prefix {
  std::string_view word, continent;
};
constexpr std::array<Prefix, 18> prefixes{{{"us", "america"},
                                           {"ca", "america"},
                                           {"northamerica", "america"},
                                           {"europe", "europe"},
                                           {"eu", "europe"},
                                           {"asia", ""},
                                           {"ap", ""},
                                           {"southamerica", ""},
                                           {"sa", ""},
                                           {"australia", ""},
                                           {"africa", ""},
                                           {"af", ""},
                                           {"me", ""},
                                           {"il", ""},
                                           {"mx", ""},
                                           {"cn", ""},
                                           {"us-gov", "america"},
                                           {"eusc", "europe"}}};
constexpr std::array<Prefix, 20> azure_ends{{{"us", "america"},
                                             {"canadacentral", "america"},
                                             {"canadaeast", "america"},
                                             {"westeurope", "europe"},
                                             {"northeurope", "europe"},
                                             {"uksouth", "europe"},
                                             {"ukwest", "europe"},
                                             {"francecentral", "europe"},
                                             {"germanywestcentral", "europe"},
                                             {"switzerlandnorth", "europe"},
                                             {"norwayeast", "europe"},
                                             {"swedencentral", "europe"},
                                             {"italynorth", "europe"},
                                             {"polandcentral", "europe"},
                                             {"spaincentral", "europe"},
                                             {"eastasia", ""},
                                             {"southeastasia", ""},
                                             {"japaneast", ""},
                                             {"australiaeast", ""},
                                             {"koreacentral", ""}}};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_small(char letter) { return letter >= 'a' && letter <= 'z'; }

std::string_view without_digits(std::string_view word) {
  while (!word.empty() && is_digit(word.back())) word.remove_suffix(1);
  return word;
}

/// "us-central1-a", "us-central1", "us-east-1a", "us-east-1": a known first word, then what ends in a digit but for the zone's letter.
std::optional<Place> of_google_or_aws(const std::string& zone) {
  const auto first = zone.find('-');
  if (first == zone.npos) return std::nullopt;
  const auto known = std::ranges::find(prefixes, std::string_view{zone}.substr(0, first), &Prefix::word);
  if (known == prefixes.end()) return std::nullopt;
  std::string region = zone;
  const auto size = region.size();
  if (size > 2 && is_small(region.back()) && region[size - 2] == '-')
    region.resize(size - 2);
  else if (size > 1 && is_small(region.back()) && is_digit(region[size - 2]))
    region.pop_back();
  if (!is_digit(region.back())) return std::nullopt;
  return Place{region, std::string{known->continent.empty() ? std::string_view{region} : known->continent}};
}

/// "eastus2", "eastus2-3", "westeurope-1".
std::optional<Place> of_azure(const std::string& zone) {
  const std::string region = zone.substr(0, zone.find('-'));
  if (region.size() != zone.size() && !without_digits(zone.substr(region.size() + 1)).empty()) return std::nullopt;
  const auto name = without_digits(region);
  const auto known = std::ranges::find_if(azure_ends, [&](const Prefix& end) {
    return end.word == "us" ? name.ends_with("us") &&
                                  (name.find("east") != name.npos || name.find("west") != name.npos || name.find("central") != name.npos)
                            : name == end.word;
  });
  if (known == azure_ends.end()) return std::nullopt;
  return Place{region, std::string{known->continent.empty() ? std::string_view{region} : known->continent}};
}

std::optional<Place> place_of(const std::string& zone) {
  const auto place = of_google_or_aws(zone);
  return place ? place : of_azure(zone);
}

bool joins(const std::string& from, const std::string& to, const std::string& zone, const std::string& other) {
  return (from == zone && to == other) || (from == other && to == zone);
}

bool has_link(const Profile& profile, const std::string& zone, const std::string& other) {
  return std::ranges::any_of(profile.links,
                             [&](const Link& link) { return link.level == LinkLevel::wide && joins(link.from, link.to, zone, other); });
}

bool has_fit(const Profile& profile, const TypeInZone& a, const TypeInZone& b) {
  return std::ranges::any_of(profile.link_fits, [&](const LinkFit& fit) {
    const bool there = fit.from_zone == a.zone && fit.to_zone == b.zone && fit.from_type == a.type && fit.to_type == b.type;
    const bool back = fit.from_zone == b.zone && fit.to_zone == a.zone && fit.from_type == b.type && fit.to_type == a.type;
    return there || back;
  });
}

/// All messages of a node together.
BytesPerSecond node_rate(const NodeNetwork& node) { return {node.card.value * node.cards}; }

/// The slowest of the nodes in two zones; nothing where the profile tells of none.
std::optional<NodeNetwork> slowest_node(const Profile& profile, const std::vector<TypeInZone>& places) {
  std::optional<NodeNetwork> slowest;
  for (const auto& place : places)
    if (const auto node = network_of(profile, place); node && (!slowest || node_rate(*node) < node_rate(*slowest))) slowest = node;
  return slowest;
}

bool is_stated(const Profile& profile, const std::string& zone) {
  return std::ranges::any_of(profile.links, [&](const Link& link) { return link.stated_zone == zone; });
}

/// Whether the profile joins zones by the types of their nodes, as the catalogue does.
bool joins_types(const Profile& profile, const std::vector<TypeInZone>& places) {
  return std::ranges::all_of(places, [&](const TypeInZone& place) {
    return std::ranges::any_of(profile.links, [&](const Link& link) { return link.level == LinkLevel::wide && link.from == place.type; });
  });
}

/// What joins two zones of one cluster: what the nodes of either have inside them. Nothing where nobody knows what they have.
std::optional<AssumedLink> join_in_cluster(Profile& profile, const std::string& zone, const std::string& other,
                                           const std::vector<TypeInZone>& places) {
  const auto node = slowest_node(profile, places);
  if (!node) return std::nullopt;
  if (is_stated(profile, zone) || is_stated(profile, other) || !joins_types(profile, places))
    profile.links.push_back({LinkLevel::wide, zone, other, {{{0}, wide_latency, node->card}}, assumed_error, node->cards});
  return AssumedLink{zone, other, ZoneDistance::cluster, node_rate(*node), wide_latency};
}

AssumedLink join_by_distance(Profile& profile, const std::string& zone, const std::string& other, ZoneDistance distance,
                             const std::vector<TypeInZone>& places) {
  auto assumed = assumed_link(distance);
  assumed.from = zone, assumed.to = other;
  if (const auto node = slowest_node(profile, places)) assumed.bandwidth = std::min(assumed.bandwidth, node_rate(*node));
  const int lanes = assumption_for(distance).lanes;
  profile.links.push_back(
      {LinkLevel::wide, zone, other, {{{0}, assumed.latency, {assumed.bandwidth.value / lanes}}}, assumed_error, lanes});
  return assumed;
}

/// Places of either zone between which some types have no fit; none: all of them were measured.
std::vector<TypeInZone> not_fitted(const Profile& measured, const std::vector<TypeInZone>& places, const std::string& zone,
                                   const std::string& other) {
  std::vector<TypeInZone> out;
  for (const auto& a : places)
    for (const auto& b : places)
      if (a.zone == zone && b.zone == other && !has_fit(measured, a, b)) out.insert(out.end(), {a, b});
  return out;
}

/// Devices' own links name types: only those between zones tell how zones are joined.
bool has_measured_wide_links(const Profile& measured) {
  return std::ranges::any_of(measured.links, [&](const Link& link) {
    return link.level == LinkLevel::wide && find_type(measured, link.from) == nullptr && find_type(measured, link.to) == nullptr;
  });
}

}  // namespace

ZoneDistance distance_between(const std::string& zone, const std::string& other) {
  const auto here = place_of(zone), there = place_of(other);
  if (!here && !there) return ZoneDistance::cluster;
  if (!here || !there) return ZoneDistance::unknown;
  if (here->region == there->region) return ZoneDistance::region;
  return here->continent == there->continent ? ZoneDistance::continent : ZoneDistance::world;
}

std::string to_string(ZoneDistance distance) { return distance_names.at(static_cast<std::size_t>(distance)); }

ZoneDistance parse_zone_distance(const std::string& name) {
  const auto found = std::ranges::find(distance_names, name);
  FLOTILLA_REQUIRE(found != distance_names.end(), ErrorKind::bad_input, "no distance of zones is called '", name.substr(0, 60),
                   "'; expected cluster, region, continent, world or unknown");
  return static_cast<ZoneDistance>(found - distance_names.begin());
}

std::string in_words(ZoneDistance distance) {
  switch (distance) {
    case ZoneDistance::cluster: return "taken for one cluster";
    case ZoneDistance::region: return "one region";
    case ZoneDistance::continent: return "regions of one continent";
    case ZoneDistance::world: return "different continents";
    case ZoneDistance::unknown: break;
  }
  return "distance unknown";
}

AssumedLink assumed_link(ZoneDistance distance) {
  const auto assumed = assumption_for(distance);
  return {"", "", distance, {assumed.lanes * assumed.lane.value}, assumed.latency};
}

std::vector<AssumedLink> assume_wide_links(Profile& profile, const Profile& measured, const std::vector<TypeInZone>& places,
                                           bool one_cluster) {
  std::set<std::string> zones;
  for (const auto& place : places) zones.insert(place.zone);
  const bool some_measured = has_measured_wide_links(measured);
  std::vector<AssumedLink> all;
  for (auto zone = zones.begin(); zone != zones.end(); ++zone)
    for (auto other = std::next(zone); other != zones.end(); ++other) {
      const auto unknown = not_fitted(measured, places, *zone, *other);
      const auto distance = one_cluster ? ZoneDistance::cluster : distance_between(*zone, *other);
      const bool says_nothing = distance == ZoneDistance::unknown || distance == ZoneDistance::cluster;
      if (unknown.empty() || has_link(profile, *zone, *other) || (says_nothing && some_measured)) continue;
      auto near = distance == ZoneDistance::cluster ? join_in_cluster(profile, *zone, *other, unknown) : std::nullopt;
      all.push_back(near ? *near : join_by_distance(profile, *zone, *other, distance, unknown));
    }
  return all;
}

void forget_wide_links(Profile& profile, const std::string& zone, const std::string& other) {
  std::erase_if(profile.links, [&](const Link& link) { return link.level == LinkLevel::wide && joins(link.from, link.to, zone, other); });
  std::erase_if(profile.link_fits, [&](const LinkFit& fit) { return joins(fit.from_zone, fit.to_zone, zone, other); });
}

void set_wide_link(Profile& profile, const std::string& from, const std::string& to, BytesPerSecond bandwidth, Seconds latency) {
  profile.links.push_back({LinkLevel::wide, from, to, {{{0}, latency, bandwidth}}});
}

}  // namespace flotilla::cluster
