#include "flotilla/bench/fabric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <random>
#include <set>

namespace flotilla::bench {
namespace {

std::vector<NodePlace> places_of(int nodes, int per_switch) {
  std::vector<NodePlace> places;
  for (int n = 0; n < nodes; ++n) places.push_back({"n" + std::to_string(n), "gpu", "s" + std::to_string(n / per_switch)});
  return places;
}

/// A made-up network: what a pair reaches in it, and how many pairs were asked for.
class Network {
 public:
  using Factor = std::function<double(NodePair)>;
  Network(std::vector<NodePlace> places, Factor factor) : places_{std::move(places)}, factor_{std::move(factor)} {}

  OddLinks look() {
    measure(first_pairs(places_));
    measure(further_pairs(places_, measured_));
    return odd_links(places_, measured_);
  }
  std::size_t pairs() const { return measured_.size(); }

 private:
  void measure(const std::vector<NodePair>& pairs) {
    std::normal_distribution<double> normal;
    for (const auto& pair : pairs) measured_.push_back({pair, 25e9 * factor_(pair) * std::exp(0.02 * normal(random_)), Seconds{2e-6}});
  }
  std::vector<NodePlace> places_;
  Factor factor_;
  std::mt19937 random_{7};
  std::vector<MeasuredPair> measured_;
};

Network::Factor half_rate_at(int node) {
  return [node](NodePair pair) { return pair.a == node || pair.b == node ? 0.5 : 1.0; };
}

TEST(Pairs, EveryNodeIsInOneAndNoneIsTwice) {
  for (const int nodes : {1, 2, 3, 7, 64}) {
    const auto pairs = first_pairs(places_of(nodes, 8));
    std::set<int> seen;
    std::set<NodePair> once;
    for (const auto& pair : pairs) {
      EXPECT_LT(pair.a, pair.b);
      EXPECT_TRUE(once.insert(pair).second);
      seen.insert({pair.a, pair.b});
    }
    EXPECT_EQ(seen.size(), nodes > 1 ? static_cast<std::size_t>(nodes) : 0u);
  }
}

TEST(Rounds, NoNodeIsInTwoPairsOfARoundAndAllPairsAreThere) {
  const auto pairs = first_pairs(places_of(40, 8));
  std::set<NodePair> seen;
  const auto rounds = rounds_of(pairs);
  for (const auto& round : rounds) {
    std::set<int> busy;
    for (const auto& pair : round) {
      EXPECT_TRUE(busy.insert(pair.a).second && busy.insert(pair.b).second);
      seen.insert(pair);
    }
  }
  EXPECT_EQ(seen.size(), pairs.size());
  EXPECT_LE(rounds.size(), 16u);
}

TEST(OddLinks, ANodeAtHalfItsRateIsFoundWithATenthOfThePairs) {
  for (const auto& [nodes, per_switch] : {std::pair{64, 16}, std::pair{64, 64}, std::pair{4096, 32}})
    for (const int odd : {0, 17, nodes - 1}) {
      Network network{places_of(nodes, per_switch), half_rate_at(odd)};
      const auto found = network.look();
      EXPECT_EQ(found.nodes, std::vector<int>{odd}) << nodes;
      EXPECT_TRUE(found.pairs.empty());
      EXPECT_LE(network.pairs(), static_cast<std::size_t>(nodes) * static_cast<std::size_t>(nodes) / 10);
      std::cout << nodes << " nodes, " << per_switch << " on a switch: " << network.pairs() << " pairs, "
                << 100.0 * static_cast<double>(network.pairs()) / nodes / nodes << " % of all\n";
    }
}

TEST(OddLinks, NothingStandsOutInASoundNetwork) {
  Network network{places_of(512, 16), [](NodePair) { return 1.0; }};
  const auto found = network.look();
  EXPECT_TRUE(found.nodes.empty() && found.pairs.empty() && found.groups.empty());
  EXPECT_NEAR(found.bandwidth, 25e9, 1e9);
}

TEST(OddLinks, OfTwoNeighboursAtHalfTheirRateBothAreFound) {
  Network network{places_of(64, 16),
                  [](NodePair pair) { return pair.a == 20 || pair.b == 20 || pair.a == 21 || pair.b == 21 ? 0.5 : 1.0; }};
  EXPECT_EQ(network.look().nodes, (std::vector<int>{20, 21}));
}

TEST(OddLinks, APairIsOddByItselfIfItsEndsAreSound) {
  Network network{places_of(64, 16), [](NodePair pair) { return pair == NodePair{33, 34} ? 0.3 : 1.0; }};
  const auto found = network.look();
  EXPECT_TRUE(found.nodes.empty());
  EXPECT_EQ(found.pairs, (std::vector<NodePair>{{33, 34}}));
}

TEST(OddLinks, ASwitchIsNamedIfItsPairsAreSlow) {
  Network network{places_of(64, 8), [](NodePair pair) { return pair.a / 8 == 3 && pair.b / 8 == 3 ? 0.5 : 1.0; }};
  EXPECT_EQ(network.look().groups, std::vector<std::string>{"gpu, s3"});
}

TEST(OddLinks, ASlowerComponentIsNoFinding) {
  auto places = places_of(64, 16);
  for (int n = 32; n < 64; ++n) places[static_cast<std::size_t>(n)].component = "cpu";
  Network network{places, [](NodePair pair) { return pair.b >= 32 ? 0.1 : 1.0; }};
  const auto found = network.look();
  EXPECT_TRUE(found.nodes.empty() && found.pairs.empty() && found.groups.empty());
}

/// What --topology finds of nodes whose switches nobody told: hosts by group.
std::vector<std::vector<int>> measured_switches(int nodes, const Network::Factor& factor, std::size_t* count = nullptr) {
  std::vector<NodePlace> places;
  for (int n = 0; n < nodes; ++n) places.push_back({"n" + std::to_string(n), "gpu", ""});
  std::vector<MeasuredPair> measured;
  const auto measure = [&](const std::vector<NodePair>& pairs) {
    for (const auto& pair : pairs) measured.push_back({pair, 25e9 * factor(pair), Seconds{2e-6}});
  };
  measure(first_pairs(places));
  measure(wide_pairs(places));
  measure(joining_pairs(places, measured));
  if (count != nullptr) *count = measured.size();
  std::vector<std::vector<int>> groups;
  for (const auto& group : switch_groups(places, measured)) groups.push_back(group.nodes);
  return groups;
}

TEST(Switches, AreMeasuredWhereNamesFollowThem) {
  const auto groups = measured_switches(6, [](NodePair pair) { return pair.a / 2 == pair.b / 2 ? 1.0 : 0.25; });
  EXPECT_EQ(groups, (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}}));
}

TEST(Switches, AreMeasuredWhereNamesDoNot) {
  for (const int nodes : {64, 256}) {
    std::size_t pairs = 0;
    const auto groups = measured_switches(
        nodes, [](NodePair pair) { return pair.a * 7 % 11 % 4 == pair.b * 7 % 11 % 4 ? 1.0 : 0.3; }, &pairs);
    EXPECT_EQ(groups.size(), 4u);
    for (const auto& group : groups)
      for (const int node : group) EXPECT_EQ(node * 7 % 11 % 4, group.front() * 7 % 11 % 4);
    EXPECT_LE(pairs, static_cast<std::size_t>(nodes) * static_cast<std::size_t>(nodes) / 5);
  }
}

TEST(Switches, ANodeOfHalfItsRateIsByItselfAndSoundNetworksAreOne) {
  EXPECT_EQ(measured_switches(16, [](NodePair) { return 1.0; }).size(), 1u);
  const auto groups = measured_switches(16, half_rate_at(5));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[1], std::vector<int>{5});
}

TEST(Switches, ThatAreKnownKeepTheirNames) {
  auto places = places_of(4, 2);
  places[3].network_switch.clear();
  EXPECT_EQ(switch_groups(places, {}), (std::vector<SwitchGroup>{{"s0", {0, 1}}, {"s1", {2}}, {"", {3}}}));
  EXPECT_TRUE(wide_pairs(places).empty());
}

/// Those that are found, and how many groups were tried.
std::pair<std::vector<int>, int> found_faulty(int nodes, const std::set<int>& faulty) {
  std::vector<int> members;
  for (int n = 0; n < nodes; ++n) members.push_back(n);
  int trials = 0;
  auto found = faulty_members(members, [&](const std::vector<int>& group) {
    ++trials;
    EXPECT_GE(group.size(), 2u);
    return std::none_of(group.begin(), group.end(), [&](int member) { return faulty.contains(member); });
  });
  std::sort(found.begin(), found.end());
  return {found, trials};
}

TEST(FaultyMembers, OneIsFoundInFewTrials) {
  for (const int nodes : {3, 4, 5, 6, 7, 64, 1000, 4096})
    for (const int odd : {0, 1, nodes / 2, nodes - 2, nodes - 1}) {
      const auto [found, trials] = found_faulty(nodes, {odd});
      EXPECT_EQ(found, std::vector<int>{odd}) << nodes;
      EXPECT_LE(trials, 2 * std::log2(nodes) + 4) << nodes;
    }
}

TEST(FaultyMembers, TwoAreFoundAndOfTwoNobodyKnowsWhich) {
  EXPECT_EQ(found_faulty(64, {5, 40}).first, (std::vector<int>{5, 40}));
  EXPECT_EQ(found_faulty(64, {5, 6}).first, (std::vector<int>{5, 6}));
  EXPECT_EQ(found_faulty(2, {1}).first, (std::vector<int>{0, 1}));
  EXPECT_TRUE(found_faulty(1, {0}).first.empty());
}

TEST(FaultyMembers, OfAFaultThatDoesNotComeAgainNobodyIs) { EXPECT_TRUE(found_faulty(64, {}).first.empty()); }

TEST(OddLinks, LatencyCountsToo) {
  const auto places = places_of(16, 16);
  std::vector<MeasuredPair> measured;
  for (const auto& pair : first_pairs(places)) measured.push_back({pair, 25e9, Seconds{pair.a == 5 || pair.b == 5 ? 30e-6 : 2e-6}});
  EXPECT_EQ(odd_links(places, measured).nodes, std::vector<int>{5});
}

TEST(OddLinks, LatenciesThatScatterNameNobody) {
  const auto places = places_of(16, 16);
  std::vector<MeasuredPair> measured;
  int k = 0;
  for (const auto& pair : first_pairs(places)) measured.push_back({pair, 25e9, Seconds{30e-6 + 20e-6 * (k++ % 5)}});
  const auto found = odd_links(places, measured);
  EXPECT_TRUE(found.nodes.empty() && found.pairs.empty());
  for (auto& m : measured)
    if (m.pair.a == 5 || m.pair.b == 5) m.latency = Seconds{500e-6};
  EXPECT_EQ(odd_links(places, measured).nodes, std::vector<int>{5});
}

}  // namespace
}  // namespace flotilla::bench
