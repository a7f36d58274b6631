// What findings mean for the profile: slow devices become types of their own, slow links slower.
#include "flotilla/monitor/slowed_profile.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/text.hpp"

namespace flotilla::monitor {
namespace {

using cluster::SlowPair;

/// Two ranks on each of three hosts of one zone.
cluster::Profile three_hosts() {
  cluster::Profile profile;
  cluster::DeviceType type;
  type.name = "cpu";
  type.peak_fp32 = type.peak_bf16 = type.peak_fp16 = FlopsPerSecond{1e10};
  type.memory_bandwidth = BytesPerSecond{1e9};
  profile.device_types = {type};
  for (int r = 0; r < 6; ++r) profile.devices.push_back({Rank{r}, "cpu", text("n", r / 2), "", r % 2, 1});
  const auto link = [](cluster::LinkLevel level, double rate) {
    cluster::Link made;
    made.level = level;
    made.pieces = {{{0}, Seconds{1e-4}, BytesPerSecond{rate}}};
    return made;
  };
  profile.links = {link(cluster::LinkLevel::node, 1e10), link(cluster::LinkLevel::zone, 1e8)};
  profile.operation_times = {{"cpu", "mlp_forward", 1, 1, 32, Precision::fp32, {0.5}, 0.02},
                             {"other", "mlp_forward", 1, 1, 32, Precision::fp32, {2}, 0.02}};
  return profile;
}

Slowness device(int rank, double factor) {
  Slowness s;
  s.rank = Rank{rank};
  s.factor = factor;
  return s;
}
Slowness link(int rank, int peer, double factor) {
  auto s = device(rank, factor);
  s.peer = Rank{peer};
  return s;
}
Slowness group(std::vector<Rank> members, double factor) {
  auto s = device(members.front().value, factor);
  s.group = 0;
  s.members = std::move(members);
  return s;
}
std::vector<Rank> all_active() { return {Rank{0}, Rank{1}, Rank{2}, Rank{3}, Rank{4}, Rank{5}}; }

double seconds(const cluster::Profile& profile, int from, int to) {
  return cluster::transfer_time(cluster::link_between(profile, Rank{from}, Rank{to}), Bytes{1'000'000}).value;
}

TEST(SlowedProfile, ASlowDeviceBecomesATypeOfItsOwn) {
  const auto before = three_hosts();
  const auto after = slowed(before, std::vector{device(1, 4)}, {Rank{2}, Rank{5}});  // the second active rank is rank 5 of the job
  for (int r = 0; r < 5; ++r) EXPECT_EQ(after.devices[static_cast<std::size_t>(r)].type, "cpu");
  const auto* type = cluster::find_type(after, after.devices[5].type);
  ASSERT_NE(type, nullptr);
  ASSERT_NE(type->name, "cpu");
  EXPECT_EQ(type->peak_fp32.value, 1e10 / 4);
  EXPECT_EQ(type->memory_bandwidth.value, 1e9 / 4);
  ASSERT_EQ(after.operation_times.size(), 3u);  // the other type's is not copied
  EXPECT_EQ(after.operation_times.back().device_type, type->name);
  EXPECT_EQ(after.operation_times.back().time, Seconds{2});
  EXPECT_EQ(*cluster::find_type(after, "cpu"), *cluster::find_type(before, "cpu"));
}

TEST(SlowedProfile, NothingSlowChangesNothing) { EXPECT_EQ(slowed(three_hosts(), {}, all_active()), three_hosts()); }

TEST(SlowedProfile, ASlowLinkTakesItsFactorLongerAndOthersDoNot) {
  const auto before = three_hosts();
  const auto after = slowed(before, std::vector{link(0, 3, 5)}, all_active());
  EXPECT_NEAR(seconds(after, 0, 3), 5 * seconds(before, 0, 3), 1e-12);
  EXPECT_NEAR(seconds(after, 0, 4), seconds(before, 0, 4), 1e-12);
  EXPECT_NEAR(seconds(after, 0, 1), seconds(before, 0, 1), 1e-12);
}

TEST(SlowPairs, OfAGroupOverHostsLinksBetweenHostsCount) {
  const auto profile = three_hosts();
  const auto pairs = slow_pairs(profile, std::vector{group({Rank{0}, Rank{1}, Rank{2}}, 3)}, all_active());
  EXPECT_EQ(pairs, (std::vector<SlowPair>{{Rank{0}, Rank{2}, 3}, {Rank{1}, Rank{2}, 3}}));
}

TEST(SlowPairs, OfAGroupOnOneHostItsOwnCount) {
  const auto pairs = slow_pairs(three_hosts(), std::vector{group({Rank{2}, Rank{3}}, 3)}, all_active());
  EXPECT_EQ(pairs, (std::vector<SlowPair>{{Rank{2}, Rank{3}, 3}}));
}

TEST(SlowPairs, WhereALinkOfTheGroupIsNamedOnlyThatCounts) {
  auto finding = group({Rank{0}, Rank{2}, Rank{4}}, 6);
  finding.links = {{Rank{2}, Rank{4}, 6}};
  EXPECT_EQ(slow_pairs(three_hosts(), std::vector{finding}, all_active()), (std::vector<SlowPair>{{Rank{2}, Rank{4}, 6}}));
  finding.links = {{.end = Rank{4}, .factor = 6}};  // that host's link to all others
  EXPECT_EQ(slow_pairs(three_hosts(), std::vector{finding}, all_active()),
            (std::vector<SlowPair>{{Rank{0}, Rank{4}, 6}, {Rank{2}, Rank{4}, 6}}));
}

TEST(SlowPairs, RanksAreTheJobs) {
  const auto pairs = slow_pairs(three_hosts(), std::vector{link(0, 1, 2)}, {Rank{3}, Rank{4}});
  EXPECT_EQ(pairs, (std::vector<SlowPair>{{Rank{3}, Rank{4}, 2}}));
}

}  // namespace
}  // namespace flotilla::monitor
