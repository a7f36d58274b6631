#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

/// What joins the nodes of a zone where nobody measured it: what somebody says, else the catalogue's usual node.
namespace flotilla::cluster {

/// The network cards of a node.
struct NodeNetwork {
  std::string type, zone;
  int cards = 1;
  BytesPerSecond card;  ///< of one, one way
  bool operator==(const NodeNetwork&) const = default;
};

/// What somebody says of networks inside zones.
struct StatedNetworks {
  std::vector<NodeNetwork> nodes;       ///< `card` as its maker states it; a place once at most
  std::map<std::string, double> trees;  ///< by zone: how many times what leaves a switch's nodes is what leaves the switch, at least 1
};

/// Of small messages between nodes, where nobody says another.
inline constexpr Seconds zone_latency{2e-5};

/// `profile` with a link between any two nodes of the zone, in place of what is known of it: all messages of a node share it, one way.
void set_zone_link(Profile&, const std::string& zone, BytesPerSecond bandwidth, Seconds latency);

/// `profile` with what is stated, in place of what is known: between nodes of two types the slower end's rate and the fewer cards. A
/// tree divides rates as if all nodes sent through it at once; the error holds up to the undivided rate. Zones that have a link of their
/// own (set_zone_link) keep it.
void set_node_networks(Profile&, const std::vector<TypeInZone>& places, const StatedNetworks&);

/// What all messages of a node together get inside its zone; nothing where the profile does not say.
std::optional<NodeNetwork> network_of(const Profile&, const TypeInZone&);

/// Before set_node_networks: places of which neither `measured` nor `stated` nor set_zone_link say what joins nodes, with the catalogue's
/// figures of the usual node, which stand in. Their error in `profile` grows to `untold_network`: the usual node is the vendor's reference
/// system, and sites have half of its cards, or fewer.
inline constexpr double untold_network = 1;
std::vector<NodeNetwork> assume_node_networks(Profile& profile, const Profile& measured, const std::vector<TypeInZone>& places,
                                              const std::vector<NodeNetwork>& stated);

}  // namespace flotilla::cluster
