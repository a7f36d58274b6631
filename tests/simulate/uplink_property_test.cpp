#include <gtest/gtest.h>

#include <map>

#include "flotilla/simulate/profile_cost.hpp"
#include "scattered_case.hpp"

// What must hold of forecasts where the hosts of a zone share the way to other zones.
namespace flotilla::uplink_property_test {
namespace {

using namespace fixture::scattered;

constexpr int cases = 120;

/// The same hosts dealt to zones, with links between zones as between hosts; uplinks on which so many messages have room at full rate.
Case in_zones(int seed, double room) {
  Case c = random_case(seed);
  const int zones = 2 + seed % 2;
  for (auto& device : c.profile.devices) device.zone = "z" + std::to_string(std::stoi(device.host.substr(1)) % zones);
  cluster::Link wide = c.profile.links.back();
  wide.level = cluster::LinkLevel::wide;
  c.profile.links.push_back(wide);
  for (int z = 0; z < zones && room > 0; ++z)
    c.profile.uplinks.push_back({"z" + std::to_string(z), {room * wide.pieces[0].bandwidth.value * (1 + z % 2)}});
  return c;
}
Case without_uplinks(int seed) { return in_zones(seed, 0); }

TEST(UplinkProperty, AnUnlimitedUplinkLeavesTimesUnchanged) {
  for (int seed = 0; seed < cases; ++seed) {
    const Case c = in_zones(seed, 1e12), without = without_uplinks(seed);
    EXPECT_NEAR(seconds(c.profile, c.plan) / seconds(without.profile, without.plan), 1, 1e-9) << "seed " << seed;
  }
}

TEST(UplinkProperty, ZonesThatAreAlikeAreLikeZonesThatNearlyAre) {
  // Alike, ranks of several zones are one kind; by a part in 10^9 unlike, each zone has kinds of its own.
  for (int seed = 0; seed < cases; ++seed) {
    Case alike = in_zones(seed, seed % 2 == 0 ? 0.75 : 1.5);
    for (auto& uplink : alike.profile.uplinks) uplink.bandwidth = alike.profile.uplinks.front().bandwidth;
    Case nearly = alike;
    for (std::size_t z = 0; z < nearly.profile.uplinks.size(); ++z)
      nearly.profile.uplinks[z].bandwidth.value *= 1 + 1e-9 * static_cast<double>(z);
    EXPECT_NEAR(seconds(nearly.profile, nearly.plan) / seconds(alike.profile, alike.plan), 1, 1e-6) << "seed " << seed;
  }
}

TEST(UplinkProperty, SharingNeverHelps) {
  int slower = 0;
  double worst = 0;
  for (int seed = 0; seed < cases; ++seed) {
    const Case wide = in_zones(seed, 2), narrow = in_zones(seed, 0.5), without = without_uplinks(seed);
    const double free = seconds(fixture::without_contention(without.profile), without.plan);
    const double cards = seconds(without.profile, without.plan), some = seconds(wide.profile, wide.plan),
                 more = seconds(narrow.profile, narrow.plan);
    EXPECT_GE(some, free * (1 - 1e-12)) << "seed " << seed;
    EXPECT_GE(more, free * (1 - 1e-12)) << "seed " << seed;
    if (more > cards * 1.01) ++slower;
    worst = std::max({worst, 1 - some / cards, 1 - more / some});  // what is late on an uplink leaves cards to others
  }
  RecordProperty("slower", slower);
  RecordProperty("worst_gain_percent", std::to_string(100 * worst));
  EXPECT_GT(slower, cases / 10);
  EXPECT_LE(worst, 0.03);
}

TEST(UplinkProperty, NoneMovesMoreThanItCan) {
  for (int seed = 0; seed < cases; ++seed) {
    const Case c = in_zones(seed, 1.25);
    const auto program = program::lower(c.plan, fixture::placed(c.profile));
    std::map<std::string, double> out, in;  // bytes
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      const auto& about = program.classes[static_cast<std::size_t>(program.ranks[r].rank_class)];
      for (const auto& issued : program::expand(program, Rank{static_cast<int>(r)})) {
        const auto* message = about.instructions[static_cast<std::size_t>(issued.instruction)].as<program::MessageEnd>();
        if (message == nullptr || !message->sends()) continue;
        const Rank to = program.ranks[r].peers[static_cast<std::size_t>(message->peer)];
        const std::string &here = c.profile.devices[r].zone, &there = c.profile.devices[to.index()].zone;
        if (here == there) continue;
        const auto bytes = static_cast<double>((message->size.per_sequence * about.sequences(issued.microbatch)).count);
        out[here] += bytes;
        in[there] += bytes;
      }
    }
    const double iteration = seconds(c.profile, c.plan) * (1 + 1e-9);
    for (const auto* side : {&out, &in})
      for (const auto& [zone, bytes] : *side)
        EXPECT_LE(bytes / cluster::uplink_of(c.profile, zone)->bandwidth.value, iteration) << "seed " << seed << " zone " << zone;
  }
}

}  // namespace
}  // namespace flotilla::uplink_property_test
