#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "support/refusal.hpp"

namespace flotilla::cluster::profile_test {
namespace {

Device device(int rank, std::string host, std::string zone) { return {Rank{rank}, "cpu", std::move(host), std::move(zone), 0, 2}; }
Link link(LinkLevel level, std::string from, std::string to, double latency) {
  return {level, std::move(from), std::move(to), {{{0}, {latency}, {1e9}}}, 0};
}

/// Hosts n1, n2 (two ranks on n1) in zone A and n3, n4 in zone B.
Profile two_zones() {
  Profile p;
  p.devices = {device(0, "n1", "A"), device(1, "n1", "A"), device(2, "n2", "A"), device(3, "n3", "B"), device(4, "n4", "B")};
  p.links = {link(LinkLevel::node, "n1", "n1", 1e-6), link(LinkLevel::zone, "n1", "n2", 10e-6), link(LinkLevel::zone, "n4", "n3", 30e-6),
             link(LinkLevel::zone, "n2", "n1", 11e-6), link(LinkLevel::wide, "A", "B", 1e-3)};
  return p;
}

double latency(const Profile& p, int a, int b) { return link_between(p, Rank{a}, Rank{b}).pieces[0].latency.value; }

TEST(LinkBetween, FollowsHostsThenZones) {
  const Profile p = two_zones();
  EXPECT_EQ(latency(p, 0, 1), 1e-6);
  EXPECT_EQ(latency(p, 1, 2), 10e-6);
  EXPECT_EQ(latency(p, 2, 1), 11e-6) << "measured in that direction";
  EXPECT_EQ(latency(p, 3, 4), 30e-6) << "measured in the other direction only";
  EXPECT_EQ(latency(p, 0, 4), 1e-3);
  EXPECT_EQ(latency(p, 4, 0), 1e-3);
}

TEST(LinkBetween, AnUnmeasuredPairHasTheSlowestLinkOfItsLevel) {
  Profile p = two_zones();
  p.devices[2].host = "n9";
  EXPECT_EQ(latency(p, 0, 2), 30e-6);
}

TEST(LinkBetween, NamesWhatIsMissing) {
  Profile p = two_zones();
  p.links.pop_back();
  tests::expect_contains(tests::refusal([&] { link_between(p, Rank{0}, Rank{3}); }), "between zones");
  EXPECT_THROW(link_between(p, Rank{0}, Rank{5}), Error);
  EXPECT_THROW(link_between(p, Rank{-1}, Rank{0}), Error);
}

OperationTime measured(int sequences, int length, double seconds) {
  return {"cpu", "mlp_forward", 1, sequences, length, Precision::fp32, {seconds}, 0};
}

std::optional<double> ask(const std::vector<OperationTime>& times, int sequences, int length) {
  Profile p;
  p.operation_times = times;
  const auto t = operation_time(p, "cpu", "mlp_forward", 1, sequences, length, Precision::fp32);
  return t ? std::optional{t->value} : std::nullopt;
}

TEST(OperationTime, ExactThenLinearThenProportional) {
  const std::vector<OperationTime> times{measured(4, 128, 5.0), measured(1, 128, 2.0), measured(2, 128, 3.0)};
  EXPECT_EQ(ask(times, 2, 128), 3.0);
  EXPECT_DOUBLE_EQ(*ask(times, 3, 128), 4.0);
  EXPECT_DOUBLE_EQ(*ask(times, 8, 128), 10.0);
  EXPECT_DOUBLE_EQ(*ask(times, 1, 64), 1.0) << "proportional below";
  EXPECT_DOUBLE_EQ(*ask(times, 1, 192), 2.5) << "another length: by tokens";
}

std::optional<SizedTime> sized(const std::vector<OperationTime>& times, int sequences) {
  Profile p;
  p.operation_times = times;
  return sized_operation_time(p, "cpu", "mlp_forward", 1, sequences, 128, Precision::fp32);
}

void expect_between(const std::optional<SizedTime>& found, double time, double least, double most) {
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->time.value, time);
  EXPECT_DOUBLE_EQ(found->least.value, least);
  EXPECT_DOUBLE_EQ(found->most.value, most);
}

/// More tokens take no less time, and a token no more time among more of them.
TEST(SizedOperationTime, LiesBetweenWhatItsNeighboursAllow) {
  const std::vector<OperationTime> filling{measured(1, 128, 4), measured(4, 128, 8), measured(16, 128, 20)};
  expect_between(sized(filling, 4), 8, 8, 8);
  expect_between(sized(filling, 2), 4 + 4.0 / 3, 4, 8);
  expect_between(sized(filling, 8), 12, 10, 16);
  const std::vector<OperationTime> in_proportion{measured(1, 128, 4), measured(4, 128, 16)};
  expect_between(sized(in_proportion, 3), 12, 12, 12);
}

TEST(SizedOperationTime, PastTheLargestItRisesAtLeastAsSteeplyAsBefore) {
  const std::vector<OperationTime> filling{measured(1, 128, 4), measured(2, 128, 5), measured(4, 128, 8)};
  expect_between(sized(filling, 16), 32, 8 + 12 * 1.5, 32);
  expect_between(sized({measured(1, 128, 4)}, 16), 64, 4, 64);
  expect_between(sized({measured(1, 128, 4), measured(2, 128, 8)}, 16), 64, 64, 64);
  expect_between(sized({measured(1, 128, 4), measured(2, 128, 3)}, 4), 6, 3, 6);
}

TEST(SizedOperationTime, BelowTheSmallestItIsNoMoreThanThat) { expect_between(sized({measured(8, 128, 4)}, 2), 1, 1, 4); }

/// Scatter can make a larger size the faster one.
TEST(SizedOperationTime, OfSamplesThatContradictEachOtherTheEndsAreBoth) {
  expect_between(sized({measured(2, 128, 5), measured(4, 128, 4)}, 3), 4.5, 4, 5);
  expect_between(sized({measured(2, 128, 4), measured(4, 128, 12)}, 3), 8, 6, 9);
}

TEST(IsPerElement, NoLayersOperation) {
  for (const char* name : {"adamw", "squared_norm", "cast", "add"}) EXPECT_TRUE(is_per_element(name));
  EXPECT_FALSE(is_per_element("mlp_forward"));
}

TEST(OperationTime, PrefersItsOwnLength) {
  const std::vector<OperationTime> times{measured(1, 1024, 100.0), measured(2, 128, 3.0), measured(8, 128, 9.0)};
  EXPECT_DOUBLE_EQ(*ask(times, 16, 128), 18.0) << "2048 tokens, but in short sequences";
  EXPECT_DOUBLE_EQ(*ask(times, 5, 128), 6.0);
}

TEST(OperationTime, OfAsManyTokensTheNearestLengthCounts) {
  const std::vector<OperationTime> times{measured(8, 128, 1.0), measured(2, 512, 2.0), measured(4, 512, 4.0)};
  EXPECT_DOUBLE_EQ(*ask(times, 4, 256), 1.0);
  EXPECT_DOUBLE_EQ(*ask(times, 1, 1000), 2.0 * 1000 / 1024);
}

TEST(OperationTime, IsNeverNegativeAndRisesBetweenRisingSamples) {
  const std::vector<OperationTime> times{measured(1, 64, 1e-3), measured(3, 64, 1.1e-3), measured(17, 64, 9e-3)};
  double last = 0;
  for (int sequences = 1; sequences < 40; ++sequences) {
    const double now = *ask(times, sequences, 64);
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(OperationTime, AnUnmeasuredCombinationHasNone) {
  Profile p;
  p.operation_times = {measured(1, 128, 1.0)};
  EXPECT_TRUE(operation_time(p, "cpu", "mlp_forward", 1, 1, 128, Precision::fp32));
  EXPECT_FALSE(operation_time(p, "gpu", "mlp_forward", 1, 1, 128, Precision::fp32));
  EXPECT_FALSE(operation_time(p, "cpu", "adamw", 1, 1, 128, Precision::fp32));
  EXPECT_FALSE(operation_time(p, "cpu", "mlp_forward", 2, 1, 128, Precision::fp32));
  EXPECT_FALSE(operation_time(p, "cpu", "mlp_forward", 1, 1, 128, Precision::bf16));
}

TEST(WhyStale, SaysWhatChanged) {
  Profile p = two_zones();
  p.software = "oneDNN 2.6";
  p.model_fingerprint = "f";
  EXPECT_EQ(why_stale(p, p.devices, "oneDNN 2.6", "f"), "");
  EXPECT_NE(why_stale(p, p.devices, "oneDNN 2.7", "f").find("oneDNN 2.7"), std::string::npos);
  EXPECT_NE(why_stale(p, p.devices, "oneDNN 2.6", "g").find("model"), std::string::npos);
  auto fewer = p.devices;
  fewer.pop_back();
  EXPECT_EQ(why_stale(p, fewer, "oneDNN 2.6", "f"), "it was measured on 5 devices, there are now 4");
  auto other = p.devices;
  other[2].threads = 7;
  EXPECT_NE(why_stale(p, other, "oneDNN 2.6", "f").find("rank 2"), std::string::npos);
}

TEST(PartOf, IsTheProfileOfTheDevicesThatAreLeft) {
  Profile p = two_zones();
  p.devices[4].type = "old cpu";
  p.device_types.resize(2);
  p.device_types[0].name = "cpu";
  p.device_types[1].name = "old cpu";
  p.operation_times.resize(2);
  p.operation_times[0].device_type = "cpu";
  p.operation_times[1].device_type = "old cpu";
  const auto left = [&](std::vector<int> ranks) {
    std::vector<Device> devices;
    for (int rank : ranks) {
      devices.push_back(p.devices[static_cast<std::size_t>(rank)]);
      devices.back().rank = Rank{static_cast<int>(devices.size()) - 1};
    }
    return devices;
  };
  EXPECT_EQ(part_of(p, p.devices), p);
  const auto part = part_of(p, left({3, 2}));
  ASSERT_TRUE(part);
  EXPECT_EQ(part->devices, left({3, 2}));
  EXPECT_EQ(part->device_types.size(), 1u);
  EXPECT_EQ(part->operation_times.size(), 1u);
  EXPECT_EQ(latency(*part, 0, 1), 1e-3);
  EXPECT_FALSE(part_of(p, left({0, 3}))) << "n1 had two ranks to share it";
  auto other = left({2, 3});
  other[1].host = "n9";
  EXPECT_FALSE(part_of(p, other));
  EXPECT_FALSE(part_of(*part, p.devices));
}

TEST(FindType, ByName) {
  Profile p;
  p.device_types.resize(2);
  p.device_types[1].name = "A100-40";
  EXPECT_EQ(find_type(p, "A100-40"), &p.device_types[1]);
  EXPECT_EQ(find_type(p, "H100"), nullptr);
}

}  // namespace
}  // namespace flotilla::cluster::profile_test
