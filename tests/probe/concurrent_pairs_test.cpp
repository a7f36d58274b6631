#include "concurrent_pairs.hpp"

#include <gtest/gtest.h>

#include <set>

namespace {

using flotilla::Bytes;
using flotilla::Rank;
using flotilla::Seconds;
using flotilla::cluster::Device;
using flotilla::probe::Pace;
using flotilla::probe::pace_of;
using flotilla::probe::pair_sets;
using flotilla::probe::PairSet;
using flotilla::probe::shared_rate;

/// One rank on each host; hosts in zones named by the letters.
std::vector<Device> hosts(const std::string& zones) {
  std::vector<Device> devices;
  for (std::size_t r = 0; r < zones.size(); ++r)
    devices.push_back({Rank{static_cast<int>(r)}, "cpu", "n" + std::to_string(r), std::string{zones[r]}, 0, 1});
  return devices;
}

TEST(ConcurrentPairs, NeedTwoHostsOnEitherSide) {
  EXPECT_TRUE(pair_sets({}).empty());
  EXPECT_TRUE(pair_sets(hosts("aaaa")).empty());
  EXPECT_TRUE(pair_sets(hosts("ab")).empty());
  EXPECT_TRUE(pair_sets(hosts("aaab")).empty());
  EXPECT_TRUE(pair_sets(hosts("abc")).empty());
  auto one_host_each = hosts("aabb");
  one_host_each[1].host = "n0", one_host_each[3].host = "n2";
  EXPECT_TRUE(pair_sets(one_host_each).empty());
}

TEST(ConcurrentPairs, TwoZonesAreMeasuredTogether) {
  EXPECT_EQ(pair_sets(hosts("aabbb")), (std::vector<PairSet>{{{"a", "b"}, {{Rank{0}, Rank{2}}, {Rank{1}, Rank{3}}}}}));
}

TEST(ConcurrentPairs, OthersTakeTurns) {
  const auto found = pair_sets(hosts("aabbcc"));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], (PairSet{{"a"}, {{Rank{0}, Rank{2}}, {Rank{1}, Rank{4}}}}));
  EXPECT_EQ(found[1], (PairSet{{"b"}, {{Rank{2}, Rank{0}}, {Rank{3}, Rank{4}}}}));
  EXPECT_EQ(found[2], (PairSet{{"c"}, {{Rank{4}, Rank{0}}, {Rank{5}, Rank{2}}}}));
  EXPECT_EQ(pair_sets(hosts("aabc")).size(), 1u) << "zones of one host have no convoy of their own";
}

TEST(ConcurrentPairs, NoHostSendsForTwoPairs) {
  auto devices = hosts("aaaaaaabbbcccccddddddddddddddddd");
  for (auto& device : devices)
    if (device.rank.value % 3 == 1) device.host = "n" + std::to_string(device.rank.value - 1), device.local_rank = 1;
  for (const auto& pair_set : pair_sets(devices)) {
    std::set<std::string> used;
    for (const auto& [inside, outside] : pair_set.pairs) {
      EXPECT_EQ(devices[inside.index()].zone, pair_set.zones.front());
      EXPECT_NE(devices[outside.index()].zone, pair_set.zones.front());
      EXPECT_TRUE(used.insert(devices[inside.index()].host).second);
      EXPECT_TRUE(used.insert(devices[outside.index()].host).second);
    }
  }
}

TEST(ConcurrentPairs, ManyZonesAreSampled) {
  std::string zones;
  for (char c = 'A'; c <= 'Z'; ++c) zones += std::string{c, c};
  EXPECT_EQ(pair_sets(hosts(zones)).size(), 16u);
}

TEST(Pace, FillsATurnOnFastNetworksAndStaysSmallOnSlowOnes) {
  const Pace fast = pace_of(Seconds{1e-4}, 8, Seconds{4});
  EXPECT_EQ(fast.size, Bytes{8 << 20});
  EXPECT_GE(fast.messages, 12);
  EXPECT_EQ(fast.pairs, 8);
  EXPECT_EQ(fast.alone, 4);
  EXPECT_EQ(fast.rounds, 5);
  const Pace slow = pace_of(Seconds{0.1}, 8, Seconds{0.3});
  EXPECT_EQ(slow, (Pace{flotilla::probe::pilot_size, 1, 2, 2, 2})) << "the least that tells anything";
  for (const double pilot : {0.0, 1e-9, 1e-3, 1e3}) {
    const Pace pace = pace_of(Seconds{pilot}, 3, Seconds{0});
    EXPECT_GE(pace.messages, 1);
    EXPECT_GE(pace.pairs, 2);
    EXPECT_LE(pace.pairs, 3);
    EXPECT_GE(pace.size, flotilla::probe::pilot_size);
  }
}

TEST(Pace, MorePairsThanTheBudgetTakesAreLeftOut) {
  const Pace pace = pace_of(Seconds{0.1}, 64, Seconds{4});
  EXPECT_EQ(pace.pairs, 16);
  EXPECT_EQ(pace.rounds, 2);
}

TEST(SharedRate, PairsThatDoNotHoldEachOtherUpShareNothing) {
  EXPECT_FALSE(shared_rate({}));
  EXPECT_FALSE(shared_rate({{{5e6, 5e6}, {5e6, 5e6}}, {{5e6, 5e6}, {5e6, 5e6}}}));
  EXPECT_FALSE(shared_rate({{{5e6, 5e6}, {4.2e6, 4.4e6}}, {{5e6, 5e6}, {4e6, 3.9e6}}})) << "a machine under load";
  EXPECT_FALSE(shared_rate({{{5e6}, {1e6}}})) << "one pair";
}

TEST(SharedRate, IsWhatTheyMoveTogether) {
  const auto rate = shared_rate({{{5e6, 5e6}, {2.6e6, 2.4e6}}, {{5e6, 5.2e6}, {2.5e6, 2.3e6}}, {{5e6, 5e6}, {2.5e6, 2.4e6}}});
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(rate->value, 4.9e6);
  // Of 8 pairs four were measured alone; the line takes five of them.
  EXPECT_TRUE(shared_rate({{{1e9, 1e9, 1e9, 1e9}, std::vector<double>(8, 0.625e9)}}));
}

TEST(SharedRate, OneRoundOfSeveralProvesNothing) {
  EXPECT_FALSE(shared_rate({{{5e6, 5e6}, {1e6, 1e6}}, {{5e6, 5e6}, {5e6, 5e6}}, {{5e6, 5e6}, {5e6, 4.9e6}}}));
}

}  // namespace
