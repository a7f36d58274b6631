#include "flotilla/cluster/node_networks.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/cluster/transports.hpp"

namespace flotilla::cluster::node_networks_test {
namespace {

/// Two types whose nodes have 8 and 1 cards, as a catalogue says it.
Profile of_catalogue() {
  Profile profile;
  for (const char* name : {"big", "small"}) {
    profile.device_types.emplace_back();
    profile.device_types.back().name = name;
  }
  profile.links = {{LinkLevel::node, "big", "big", {{{0}, {1e-6}, {2e11}}}, 0.4, 8},
                   {LinkLevel::zone, "big", "big", {{{0}, {2e-5}, {22.5e9}}}, 0.4, 8},
                   {LinkLevel::zone, "big", "small", {{{0}, {2e-5}, {9e9}}}, 0.4, 1},
                   {LinkLevel::zone, "small", "small", {{{0}, {2e-5}, {9e9}}}, 0.4, 1},
                   {LinkLevel::wide, "big", "big", {{{0}, {1e-3}, {22.5e9}}}, 0.4, 8}};
  return profile;
}

/// Two nodes of the types and zones.
const Link& between(Profile& profile, const TypeInZone& a, const TypeInZone& b) {
  profile.devices = {{Rank{0}, a.type, "h", a.zone}, {Rank{1}, b.type, "g", b.zone}};
  return link_between(profile, Rank{0}, Rank{1});
}

const std::vector<TypeInZone> two_zones{{"big", "x"}, {"small", "x"}, {"big", "y"}};

TEST(NodeNetworks, CardsOfANodeHoldInItsZoneAlone) {
  Profile profile = of_catalogue();
  set_node_networks(profile, two_zones, {{{"big", "x", 2, {25e9}}}, {}});
  EXPECT_DOUBLE_EQ(between(profile, {"big", "x"}, {"big", "x"}).pieces[0].bandwidth.value, 0.9 * 25e9);
  EXPECT_EQ(between(profile, {"big", "x"}, {"big", "x"}).lanes, 2);
  EXPECT_EQ(between(profile, {"big", "y"}, {"big", "y"}).lanes, 8);
  EXPECT_DOUBLE_EQ(between(profile, {"small", "x"}, {"big", "x"}).pieces[0].bandwidth.value, 9e9);  // the slower end
  EXPECT_EQ(between(profile, {"small", "x"}, {"big", "x"}).lanes, 1);
  profile.devices = {{Rank{0}, "big", "h", "x"}, {Rank{1}, "big", "h", "x"}};
  EXPECT_EQ(link_between(profile, Rank{0}, Rank{1}).level, LinkLevel::node);
}

TEST(NodeNetworks, ATreeDividesAndTheBarReachesTheUndividedRate) {
  Profile profile = of_catalogue();
  set_node_networks(profile, two_zones, {{{"big", "x", 2, {20e9}}}, {{"x", 4.0}}});
  const auto& divided = between(profile, {"big", "x"}, {"big", "x"});
  EXPECT_DOUBLE_EQ(divided.pieces[0].bandwidth.value, 0.9 * 5e9);
  EXPECT_DOUBLE_EQ(divided.relative_scatter, 0.75);
  EXPECT_DOUBLE_EQ(between(profile, {"small", "x"}, {"small", "x"}).pieces[0].bandwidth.value, 9e9 / 4);
  EXPECT_DOUBLE_EQ(between(profile, {"big", "y"}, {"big", "y"}).pieces[0].bandwidth.value, 22.5e9);
}

TEST(NodeNetworks, ALinkOfAZoneGoesBeforeWhatWasMeasuredAndBeforeCards) {
  Profile profile = of_catalogue();
  profile.links.push_back({LinkLevel::zone, "h", "g", {{{0}, {1e-6}, {1e9}}}});
  set_zone_link(profile, "x", {3e9}, {5e-5});
  set_node_networks(profile, two_zones, {{{"big", "x", 2, {25e9}}, {"big", "y", 1, {2e9}}}, {}});
  EXPECT_EQ(between(profile, {"big", "x"}, {"small", "x"}).pieces[0], (LinkPiece{{0}, {5e-5}, {3e9}}));
  EXPECT_EQ(between(profile, {"big", "x"}, {"big", "x"}).pieces[0], (LinkPiece{{0}, {5e-5}, {3e9}}));
  EXPECT_DOUBLE_EQ(between(profile, {"big", "y"}, {"big", "y"}).pieces[0].bandwidth.value, 1.8e9);
  EXPECT_EQ(network_of(profile, {"small", "x"}), (NodeNetwork{"small", "x", 1, {3e9}}));
}

TEST(NodeNetworks, WhatIsStatedHoldsForEveryTransport) {
  Profile profile = of_catalogue();
  profile.device_links = {{Transport::nccl, {LinkLevel::zone, "n1", "n2", {{{0}, {1e-5}, {40e9}}}}, ""}};
  set_node_networks(profile, {{"big", "x"}}, {{{"big", "x", 1, {2e9}}}, {}});
  Profile device_profile = over(profile, Transport::nccl);
  EXPECT_DOUBLE_EQ(between(device_profile, {"big", "x"}, {"big", "x"}).pieces[0].bandwidth.value, 1.8e9);
  EXPECT_DOUBLE_EQ(between(device_profile, {"big", "y"}, {"big", "y"}).pieces[0].bandwidth.value, 40e9);
}

TEST(NodeNetworks, WhatNobodySaysWidensTheBar) {
  Profile profile = of_catalogue();
  const std::vector<NodeNetwork> stated{{"big", "x", 2, {25e9}}};
  const auto assumed = assume_node_networks(profile, {}, two_zones, stated);
  EXPECT_EQ(assumed, (std::vector<NodeNetwork>{{"big", "y", 8, {22.5e9}}, {"small", "x", 1, {9e9}}}));
  set_node_networks(profile, two_zones, {stated, {}});
  EXPECT_DOUBLE_EQ(between(profile, {"big", "y"}, {"big", "y"}).relative_scatter, untold_network);
  EXPECT_DOUBLE_EQ(between(profile, {"big", "x"}, {"big", "x"}).relative_scatter, 0.4);
  EXPECT_DOUBLE_EQ(between(profile, {"small", "x"}, {"big", "x"}).relative_scatter, untold_network);
}

TEST(NodeNetworks, WhatWasMeasuredIsNotAssumed) {
  Profile fitted;
  fitted.link_fits = {{"z", "big", 1, "z", "big", 1, 0, 0, 1, {1e9}}};
  for (const Profile& measured : {of_catalogue(), fitted}) {
    Profile profile = of_catalogue();
    EXPECT_TRUE(assume_node_networks(profile, measured, {{"big", "x"}}, {}).empty());
    EXPECT_EQ(profile, of_catalogue());
  }
}

}  // namespace
}  // namespace flotilla::cluster::node_networks_test
