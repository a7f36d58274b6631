#include "flotilla/cluster/node_networks.hpp"

#include <algorithm>
#include <set>

#include "link_side.hpp"

namespace flotilla::cluster {
namespace {

constexpr double card_share = 0.9;         // of a card's rate that large messages reach, as in the catalogue
constexpr double stated_card_error = 0.4;  // of transfer times, as of the catalogue's cards

bool is_of(const Link& link, const std::string& type) { return link.from == type && link.to == type; }

/// Of nodes of the type in any zone.
const Link* usual_link(const Profile& profile, const std::string& type) {
  const auto found = std::ranges::find_if(
      profile.links, [&](const Link& link) { return link.level == LinkLevel::zone && !link.stated_zone && is_of(link, type); });
  return found == profile.links.end() || found->pieces.empty() ? nullptr : &*found;
}

const Link* stated_of(const Profile& profile, const TypeInZone& place) {
  const auto found = std::ranges::find_if(
      profile.links, [&](const Link& link) { return link.stated_zone == place.zone && (link.from.empty() || is_of(link, place.type)); });
  return found == profile.links.end() ? nullptr : &*found;
}

LinkSide side_of(const Link& link) {
  return {link.pieces.back().bandwidth.value, link.pieces.back().latency.value, link.relative_scatter, std::max(1, link.lanes)};
}

/// Nothing where nobody knows it.
std::optional<LinkSide> side_of(const Profile& profile, const TypeInZone& place, const StatedNetworks& stated) {
  const auto* usual = usual_link(profile, place.type);
  auto side = usual ? std::optional{side_of(*usual)} : std::nullopt;
  for (const auto& node : stated.nodes)
    if (node.type == place.type && node.zone == place.zone)
      side = {node.card.value * card_share, side ? side->latency : zone_latency.value, stated_card_error, node.cards};
  const auto tree = stated.trees.find(place.zone);
  if (!side || tree == stated.trees.end()) return side;
  side->rate /= tree->second;
  side->error = std::max(side->error, 1 - 1 / tree->second);
  return side;
}

bool has_zone_link(const Profile& profile, const std::string& zone) {
  return std::ranges::any_of(profile.links, [&](const Link& link) { return link.stated_zone == zone && link.from.empty(); });
}

bool is_listed(const std::vector<NodeNetwork>& nodes, const TypeInZone& place) {
  return std::ranges::any_of(nodes, [&](const auto& node) { return node.type == place.type && node.zone == place.zone; });
}

bool says_something(const StatedNetworks& stated, const TypeInZone& place) {
  return stated.trees.contains(place.zone) || is_listed(stated.nodes, place);
}

bool was_measured(const Profile& measured, const TypeInZone& place) {
  const auto fits = [&](const LinkFit& fit) {
    return !fit.inside_node() && fit.from_zone == fit.to_zone && fit.from_type == place.type && fit.to_type == place.type;
  };
  return usual_link(measured, place.type) != nullptr || std::ranges::any_of(measured.link_fits, fits);
}

}  // namespace

void set_zone_link(Profile& profile, const std::string& zone, BytesPerSecond bandwidth, Seconds latency) {
  Link link{LinkLevel::zone, "", "", {{{0}, latency, bandwidth}}};
  link.stated_zone = zone;
  profile.links.push_back(std::move(link));
}

void set_node_networks(Profile& profile, const std::vector<TypeInZone>& places, const StatedNetworks& stated) {
  std::vector<Link> links;
  const std::set<TypeInZone> all{places.begin(), places.end()};
  for (auto one = all.begin(); one != all.end(); ++one)
    for (auto other = one; other != all.end(); ++other) {
      if (one->zone != other->zone || has_zone_link(profile, one->zone)) continue;
      if (!says_something(stated, *one) && !says_something(stated, *other)) continue;
      const auto a = side_of(profile, *one, stated), b = side_of(profile, *other, stated);
      if (!a && !b) continue;
      links.push_back(link_of(LinkLevel::zone, one->type, other->type, a && b ? both(*a, *b) : a ? *a : *b));
      links.back().stated_zone = one->zone;
    }
  profile.links.insert(profile.links.end(), links.begin(), links.end());
}

std::optional<NodeNetwork> network_of(const Profile& profile, const TypeInZone& place) {
  const auto* stated = stated_of(profile, place);
  const auto* link = stated ? stated : usual_link(profile, place.type);
  if (!link) return std::nullopt;
  const auto side = side_of(*link);
  return NodeNetwork{place.type, place.zone, side.lanes, {side.rate}};
}

std::vector<NodeNetwork> assume_node_networks(Profile& profile, const Profile& measured, const std::vector<TypeInZone>& places,
                                              const std::vector<NodeNetwork>& stated) {
  std::vector<NodeNetwork> assumed;
  std::set<std::string> types;
  for (const auto& place : std::set<TypeInZone>{places.begin(), places.end()}) {
    const auto* usual = usual_link(profile, place.type);
    if (has_zone_link(profile, place.zone) || is_listed(stated, place) || was_measured(measured, place) || !usual) continue;
    assumed.push_back(*network_of(profile, place));
    types.insert(place.type);
  }
  for (auto& link : profile.links)
    if (link.level != LinkLevel::node && !link.stated_zone && (types.contains(link.from) || types.contains(link.to)))
      link.relative_scatter = std::max(link.relative_scatter, untold_network);
  return assumed;
}

}  // namespace flotilla::cluster
