#include "pairs.hpp"

#include <gtest/gtest.h>

#include <set>

namespace {

using flotilla::Rank;
using flotilla::cluster::Device;
using flotilla::cluster::LinkLevel;
using flotilla::probe::Pair;
using flotilla::probe::pairs;

Device device(int rank, const std::string& host, const std::string& zone = "") { return {Rank{rank}, "cpu", host, zone, 0, 1}; }

TEST(Pairs, OneRankHasNoLinks) { EXPECT_TRUE(pairs({device(0, "a")}).empty()); }

TEST(Pairs, OneHost) {
  EXPECT_EQ(pairs({device(0, "a"), device(1, "a"), device(2, "a")}), (std::vector<Pair>{{Rank{0}, Rank{1}, LinkLevel::node, "a", "a"}}));
}

TEST(Pairs, HostsByTheirFirstRanks) {
  const auto found = pairs({device(0, "b"), device(1, "a"), device(2, "b"), device(3, "c")});
  EXPECT_EQ(found, (std::vector<Pair>{{Rank{0}, Rank{2}, LinkLevel::node, "b", "b"},
                                      {Rank{0}, Rank{1}, LinkLevel::zone, "b", "a"},
                                      {Rank{0}, Rank{3}, LinkLevel::zone, "b", "c"},
                                      {Rank{1}, Rank{3}, LinkLevel::zone, "a", "c"}}));
}

TEST(Pairs, ZonesAreNamedByZone) {
  const auto found = pairs({device(0, "a", "east"), device(1, "b", "east"), device(2, "c", "west")});
  EXPECT_EQ(found, (std::vector<Pair>{{Rank{0}, Rank{1}, LinkLevel::zone, "a", "b"}, {Rank{0}, Rank{2}, LinkLevel::wide, "east", "west"}}));
}

TEST(Pairs, ManyHostsAreSampledAndAllTakePart) {
  std::vector<Device> devices;
  for (int r = 0; r < 400; ++r) devices.push_back(device(r, "n" + std::to_string(r / 4)));
  std::set<int> ranks;
  std::set<std::pair<std::string, std::string>> links;
  int inside = 0;
  for (const auto& pair : pairs(devices)) {
    EXPECT_NE(pair.a, pair.b);
    EXPECT_TRUE(links.emplace(pair.from, pair.to).second) << "measured twice: " << pair.from << " " << pair.to;
    if (pair.level == LinkLevel::node)
      ++inside;
    else
      ranks.insert({pair.a.value, pair.b.value});
  }
  EXPECT_EQ(inside, 16);
  EXPECT_EQ(ranks.size(), 100u) << "the first rank of every host";
  EXPECT_LE(links.size(), 16u + 200u);
}

}  // namespace
