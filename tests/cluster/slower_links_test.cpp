#include "flotilla/cluster/slower_links.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/transports.hpp"

namespace flotilla::cluster::slower_links_test {
namespace {

constexpr Bytes size{1 << 20};

/// Two ranks on each of three hosts, the last in a zone of its own; one measured link between hosts stands for all of a zone.
Profile six_ranks() {
  Profile profile;
  const char* hosts[] = {"n0", "n0", "n1", "n1", "m0", "m0"};
  for (int r = 0; r < 6; ++r) profile.devices.push_back({Rank{r}, "cpu", hosts[r], r < 4 ? "near" : "far", r % 2, 1});
  const auto link = [](LinkLevel level, const char* from, const char* to, double rate) {
    Link made;
    made.level = level;
    made.from = from;
    made.to = to;
    made.pieces = {{{0}, Seconds{1e-5}, BytesPerSecond{rate}}};
    made.sum_pieces = {{{0}, Seconds{2e-5}, BytesPerSecond{rate / 2}}};
    return made;
  };
  profile.links = {link(LinkLevel::node, "n0", "n0", 1e10), link(LinkLevel::zone, "n0", "n1", 1e9),
                   link(LinkLevel::wide, "near", "far", 1e8)};
  return profile;
}

double ratio(const Profile& now, const Profile& before, int a, int b) {
  return transfer_time(link_between(now, Rank{a}, Rank{b}), size) / transfer_time(link_between(before, Rank{a}, Rank{b}), size);
}

TEST(SlowerLinks, OfTwoHostsAllRanksHaveItBothWaysAndNobodyElse) {
  const auto before = six_ranks();
  const auto now = with_slower_links(before, std::vector<SlowPair>{{Rank{1}, Rank{2}, 8}});
  for (const int a : {0, 1})
    for (const int b : {2, 3}) {
      EXPECT_NEAR(ratio(now, before, a, b), 8, 1e-9);
      EXPECT_NEAR(ratio(now, before, b, a), 8, 1e-9);
    }
  for (const auto& [a, b] : {std::pair{0, 1}, std::pair{2, 3}, std::pair{0, 4}, std::pair{3, 5}, std::pair{4, 5}})
    EXPECT_EQ(ratio(now, before, a, b), 1) << a << ' ' << b;
  const auto& link = link_between(now, Rank{0}, Rank{3});
  EXPECT_NEAR(sum_time(link, size) / sum_time(link_between(before, Rank{0}, Rank{3}), size), 8, 1e-9);
}

TEST(SlowerLinks, AZonesAndAHostsOwn) {
  const auto before = six_ranks();
  const auto now = with_slower_links(before, std::vector<SlowPair>{{Rank{0}, Rank{5}, 3}, {Rank{4}, Rank{5}, 5}});
  EXPECT_NEAR(ratio(now, before, 2, 4), 3, 1e-9) << "zones have one link";
  EXPECT_NEAR(ratio(now, before, 4, 5), 5, 1e-9);
  EXPECT_EQ(ratio(now, before, 0, 1), 1) << "another host's own";
}

TEST(SlowerLinks, PairsOfOneLinkCountOnce) {
  const auto before = six_ranks();
  const std::vector<SlowPair> pairs{{Rank{0}, Rank{2}, 4}, {Rank{3}, Rank{1}, 6}, {Rank{0}, Rank{3}, 2}};
  EXPECT_NEAR(ratio(with_slower_links(before, pairs), before, 0, 2), 6, 1e-9);
  EXPECT_EQ(with_slower_links(before, std::vector<SlowPair>{{Rank{0}, Rank{2}, 0.5}}), before) << "nothing becomes faster";
  EXPECT_THROW(with_slower_links(before, std::vector<SlowPair>{{Rank{0}, Rank{9}, 2}}), Error);
}

TEST(SlowerLinks, PairsThatWereNotMeasuredKeepWhatTheyHad) {
  auto before = six_ranks();
  for (auto& device : before.devices) device.zone = "near";  // n0-n1 alone was measured, and stands for the pairs with m0
  const auto now = with_slower_links(before, std::vector<SlowPair>{{Rank{0}, Rank{2}, 7}});
  EXPECT_NEAR(ratio(now, before, 0, 2), 7, 1e-9);
  EXPECT_EQ(ratio(now, before, 0, 4), 1);
  EXPECT_EQ(ratio(now, before, 5, 3), 1);
}

/// n0 and n1 have GPUs that NCCL and MPI on device memory join, inside each and between them; m0 has CPUs.
Profile with_gpus() {
  auto profile = six_ranks();
  for (const auto kind : {DeviceKind::gpu, DeviceKind::cpu})
    profile.device_types.push_back({kind == DeviceKind::gpu ? "gpu" : "cpu", kind, {1 << 30}, {1e12}, {1e12}, {1e11}, "made up"});
  for (int r = 0; r < 4; ++r) profile.devices[static_cast<std::size_t>(r)].type = "gpu";
  for (const auto& link : {profile.links[0], profile.links[1]})
    for (const auto transport : device_transports) profile.device_links.push_back({transport, link, ""});
  profile.device_links.push_back({Transport::nccl, {LinkLevel::wide, "near", "far", {}}, "computes on a CPU"});
  return profile;
}

TEST(SlowerLinks, BetweenGpusAreSlowerByEveryTransport) {
  const auto before = with_gpus();
  const auto now = with_slower_links(before, std::vector<SlowPair>{{Rank{1}, Rank{2}, 8}, {Rank{0}, Rank{5}, 2}});
  for (const auto transport : device_transports) {
    const auto after = over(now, transport), was = over(before, transport);
    EXPECT_NEAR(ratio(after, was, 0, 3), 8, 1e-9);
    EXPECT_NEAR(ratio(after, was, 3, 0), 8, 1e-9);
    EXPECT_EQ(ratio(after, was, 0, 1), 1);
  }
  EXPECT_NEAR(ratio(now, before, 0, 3), 8, 1e-9);
  EXPECT_NEAR(ratio(now, before, 0, 5), 2, 1e-9);
  EXPECT_FALSE(joins(now, Transport::nccl, {Rank{0}, Rank{5}})) << "what was refused stays refused";
  EXPECT_TRUE(joins(now, Transport::nccl, {Rank{0}, Rank{2}}));
}

}  // namespace
}  // namespace flotilla::cluster::slower_links_test
