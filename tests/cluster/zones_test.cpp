#include "flotilla/cluster/zones.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/cluster/node_networks.hpp"

namespace flotilla::cluster::zones_test {
namespace {

TEST(Zones, NamesOfCloudsTellTheDistance) {
  using enum ZoneDistance;
  const struct {
    const char *zone, *other;
    ZoneDistance distance;
  } cases[] = {{"us-central1-a", "us-central1-b", region},
               {"us-central1-a", "us-central1", region},
               {"us-central1-a", "us-west1-b", continent},
               {"us-central1-a", "northamerica-northeast1-a", continent},
               {"europe-west4-a", "europe-north1-b", continent},
               {"us-central1-a", "europe-west4-a", world},
               {"asia-east1-a", "asia-south1-a", world},
               {"asia-east1-a", "asia-east1-b", region},
               {"us-east-1a", "us-east-1b", region},
               {"us-east-1a", "us-west-2c", continent},
               {"eu-west-1a", "us-east-1a", world},
               {"ap-southeast-1a", "ap-northeast-1a", world},
               {"eastus-1", "eastus-2", region},
               {"eastus", "eastus2", continent},
               {"eastus2-1", "westeurope-1", world},
               {"westeurope-1", "northeurope-1", continent},
               {"a", "b", cluster},
               {"rack-1", "rack-2", cluster},
               {"gpu", "", cluster},
               {"us-central1-a", "my-cluster", unknown},
               {"campus", "eastus", unknown},
               {"", "us-east-1a", unknown},
               {"us-a", "us-b", cluster}};
  for (const auto& c : cases) {
    EXPECT_EQ(distance_between(c.zone, c.other), c.distance) << c.zone << " " << c.other;
    EXPECT_EQ(distance_between(c.other, c.zone), c.distance) << c.other << " " << c.zone;
  }
}

TEST(Zones, FartherIsSlowerAndAnUnknownDistanceIsNoShortOne) {
  const auto rate = [](ZoneDistance d) { return assumed_link(d).bandwidth.value; };
  const auto latency = [](ZoneDistance d) { return assumed_link(d).latency.value; };
  using enum ZoneDistance;
  EXPECT_GT(rate(region), rate(continent));
  EXPECT_GT(rate(continent), rate(world));
  EXPECT_LT(latency(region), latency(continent));
  EXPECT_LT(latency(continent), latency(world));
  EXPECT_EQ(rate(unknown), rate(continent));
  EXPECT_EQ(latency(unknown), latency(continent));
}

/// Two types whose nodes send 50 and 2 GB/s.
Profile types_alone() {
  Profile profile;
  for (const char* name : {"quick", "slow"}) {
    profile.device_types.emplace_back();
    profile.device_types.back().name = name;
  }
  profile.links = {{LinkLevel::zone, "quick", "quick", {{{0}, {2e-5}, {12.5e9}}}, 0.3, 4},
                   {LinkLevel::zone, "slow", "slow", {{{0}, {2e-5}, {2e9}}}, 0.3, 1},
                   {LinkLevel::wide, "quick", "slow", {{{0}, {1e-3}, {2e9}}}, 0.3, 1}};
  return profile;
}

const Link* between(const Profile& profile, const std::string& from, const std::string& to) {
  for (const Link& link : profile.links)
    if (link.level == LinkLevel::wide && link.from == from && link.to == to) return &link;
  return nullptr;
}

/// Partitions of one cluster share its network: the catalogue's links between types, or what is said of either.
TEST(Zones, PartitionsOfOneClusterAreNoFarZones) {
  Profile profile = types_alone();
  profile.links.push_back({LinkLevel::wide, "quick", "quick", {{{0}, {1e-3}, {12.5e9}}}, 0.3, 4});
  profile.devices = {{Rank{0}, "quick", "h", "a100"}, {Rank{1}, "quick", "g", "debug"}};
  const std::vector<TypeInZone> places{{"quick", "a100"}, {"quick", "debug"}};
  Profile usual = profile;
  const auto assumed = assume_wide_links(usual, {}, places);
  ASSERT_EQ(assumed.size(), 1u);
  EXPECT_EQ(assumed[0], (AssumedLink{"a100", "debug", ZoneDistance::cluster, {50e9}, wide_latency}));
  EXPECT_EQ(usual, profile);  // its types are joined
  set_node_networks(profile, places, {{{"quick", "debug", 1, {1e9}}}, {}});
  EXPECT_DOUBLE_EQ(assume_wide_links(profile, {}, places)[0].bandwidth.value, 0.9e9);
  EXPECT_DOUBLE_EQ(link_between(profile, Rank{0}, Rank{1}).pieces[0].bandwidth.value, 0.9e9);
  const std::vector<TypeInZone> clouds{{"quick", "us-east-1a"}, {"quick", "eu-west-1a"}};
  EXPECT_EQ(assume_wide_links(usual, {}, clouds, true)[0].distance, ZoneDistance::cluster);  // a site may call its partitions so
}

TEST(Zones, EveryUnmeasuredPairIsJoinedByItsDistance) {
  Profile profile = types_alone();
  const Profile measured;
  const auto assumed = assume_wide_links(
      profile, measured, {{"quick", "us-east-1a"}, {"quick", "us-east-1b"}, {"slow", "us-west-2a"}, {"quick", "eu-west-1a"}});
  ASSERT_EQ(assumed.size(), 6u);
  EXPECT_EQ(assumed.front().from, "eu-west-1a");
  EXPECT_EQ(assumed.front().to, "us-east-1a");
  EXPECT_EQ(assumed.front().distance, ZoneDistance::world);
  const auto* near = between(profile, "us-east-1a", "us-east-1b");
  ASSERT_NE(near, nullptr);
  EXPECT_DOUBLE_EQ(near->pieces[0].bandwidth.value * near->lanes, assumed_link(ZoneDistance::region).bandwidth.value);
  EXPECT_GT(near->relative_scatter, 0.3);  // the error bar says so
  profile.devices = {{Rank{0}, "quick", "h", "us-east-1a"}, {Rank{1}, "slow", "g", "us-west-2a"}};
  EXPECT_EQ(&link_between(profile, Rank{0}, Rank{1}), between(profile, "us-east-1a", "us-west-2a"));
}

TEST(Zones, NoLinkIsFasterThanTheNodesOfItsEnds) {
  Profile profile = types_alone();
  const auto assumed = assume_wide_links(profile, {}, {{"quick", "us-east-1a"}, {"slow", "us-east-1b"}});
  ASSERT_EQ(assumed.size(), 1u);
  EXPECT_DOUBLE_EQ(assumed[0].bandwidth.value, 2e9);
}

TEST(Zones, WhatWasMeasuredIsNotAssumed) {
  Profile measured = types_alone();
  measured.links.push_back({LinkLevel::wide, "b", "a", {{{0}, {1e-4}, {1e9}}}});
  Profile profile = measured;
  EXPECT_TRUE(assume_wide_links(profile, measured, {{"quick", "a"}, {"quick", "b"}}).empty());
  EXPECT_EQ(profile, measured);
  // Of names that say nothing the slowest measured link stands in for the others.
  EXPECT_TRUE(assume_wide_links(profile, measured, {{"quick", "a"}, {"quick", "c"}}).empty());
  EXPECT_EQ(assume_wide_links(profile, measured, {{"quick", "us-east-1a"}, {"quick", "eu-west-1a"}}).size(), 1u);
}

TEST(Zones, AFitMeasuresThePairsOfItsTypesAlone) {
  Profile profile = types_alone();
  profile.link_fits = {{"x", "quick", 1, "y", "quick", 1, 0, 0, 1, {1e9}}};
  const Profile measured = profile;
  EXPECT_TRUE(assume_wide_links(profile, measured, {{"quick", "x"}, {"quick", "y"}}).empty());
  EXPECT_EQ(assume_wide_links(profile, measured, {{"quick", "x"}, {"quick", "y"}, {"slow", "y"}}).size(), 1u);
}

TEST(Zones, AStatedLinkReplacesMeasuredOnesBothWays) {
  Profile profile = types_alone();
  profile.links.push_back({LinkLevel::wide, "y", "x", {{{0}, {1e-4}, {1e9}}}});
  profile.link_fits = {{"x", "quick", 1, "y", "quick", 1, 0, 0, 1, {1e9}}, {"x", "quick", 1, "z", "quick", 1, 0, 0, 1, {1e9}}};
  forget_wide_links(profile, "x", "y");
  set_wide_link(profile, "x", "y", {5e9}, {3e-3});
  ASSERT_EQ(profile.link_fits.size(), 1u);
  EXPECT_EQ(profile.link_fits[0].to_zone, "z");
  profile.devices = {{Rank{0}, "quick", "h", "x"}, {Rank{1}, "quick", "g", "y"}};
  EXPECT_EQ(link_between(profile, Rank{0}, Rank{1}).pieces[0], (LinkPiece{{0}, {3e-3}, {5e9}}));
  EXPECT_EQ(link_between(profile, Rank{1}, Rank{0}).pieces[0], (LinkPiece{{0}, {3e-3}, {5e9}}));
  set_wide_link(profile, "y", "x", {1e9}, {4e-3});
  EXPECT_EQ(link_between(profile, Rank{0}, Rank{1}).pieces[0].bandwidth.value, 5e9);
  EXPECT_EQ(link_between(profile, Rank{1}, Rank{0}).pieces[0].bandwidth.value, 1e9);
}

TEST(Prices, AZonesOwnGoBeforeItsTypes) {
  Profile profile = types_alone();
  profile.device_types[0].usd_per_hour = 4;
  zone_price(profile, "quick", "x").usd_per_hour = 3;
  zone_price(profile, "quick", "x").billing_weight = 8;
  EXPECT_EQ(profile.zone_prices.size(), 1u);
  EXPECT_EQ(usd_per_hour(profile, "quick", "x"), 3);
  EXPECT_EQ(usd_per_hour(profile, "quick", "y"), 4);
  EXPECT_EQ(usd_per_hour(profile, "slow", "x"), 0);
  EXPECT_EQ(usd_per_hour(profile, "nobody's", "x"), 0);
  EXPECT_EQ(billing_weight(profile, "quick", "x"), 8);
  EXPECT_EQ(billing_weight(profile, "quick", "y"), 0);
}

}  // namespace
}  // namespace flotilla::cluster::zones_test
