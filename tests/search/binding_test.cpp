// Plans by type and zone on the ranks at hand.
#include <gtest/gtest.h>

#include "flotilla/search/binding.hpp"
#include "flotilla/search/constraints.hpp"

namespace flotilla::search::binding_test {
namespace {

/// Four hosts: two of two fast devices, one of two slow ones, one of four slow ones.
cluster::Profile hosts() {
  cluster::Profile profile;
  const std::vector<std::tuple<std::string, std::string, int>> list{
      {"f0", "fast", 2}, {"f1", "fast", 2}, {"s0", "slow", 2}, {"s1", "slow", 4}};
  int rank = 0;
  for (const auto& [host, type, count] : list)
    for (int i = 0; i < count; ++i) profile.devices.push_back({Rank{rank++}, type, host, "", i, 1});
  return profile;
}

plan::Plan two_stages(std::vector<plan::Replica> first, std::vector<plan::Replica> second) {
  plan::Plan plan;
  plan.model = model::built_in("gpt2-tiny");
  plan.length = 8;
  plan.global_batch = 4;
  plan.stages = {{0, 2, plan::Recompute::none, std::move(first)}, {2, 4, plan::Recompute::none, std::move(second)}};
  return plan;
}

TEST(OnDevices, KeepsGroupsInsideAHostAndTakesTheirTypes) {
  const auto bound = on_devices(two_stages({{"fast", "", 1, {}, 1, 2}, {"fast", "", 1, {}, 1, 2}},
                                           {{"slow", "", 2, {}, 1, 2}, {"slow", "", 4, {}, 1, 1}, {"fast", "", 2, {}, 1, 1}}),
                                hosts());
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->stages[1].replicas[1].devices, (std::vector{Rank{6}, Rank{7}, Rank{8}, Rank{9}}));
  EXPECT_EQ(bound->stages[1].replicas[0].devices, (std::vector{Rank{4}, Rank{5}}));
  const auto& pair = bound->stages[1].replicas[2].devices;
  EXPECT_EQ(pair[0].value / 2, pair[1].value / 2);
  EXPECT_TRUE(plan::validate(*bound).empty());
}

/// No host has four fast ones, two whole ones have.
TEST(OnDevices, GivesGroupsWiderThanAHostWholeHosts) {
  const auto bound = on_devices(two_stages({{"fast", "", 4, {}, 1, 4}}, {{"slow", "", 2, {}, 1, 4}}), hosts());
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->stages[0].replicas[0].devices, (std::vector{Rank{0}, Rank{1}, Rank{2}, Rank{3}}));
}

TEST(OnDevices, RefusesWhatIsNotThereAndRanksThatIdleInTheMiddle) {
  EXPECT_FALSE(
      on_devices(two_stages({{"fast", "", 6, {}, 1, 4}}, {{"slow", "", 1, {}, 1, 4}}), hosts()));  // there are not so many fast ones
  EXPECT_FALSE(on_devices(two_stages({{"fast", "", 1, {}, 1, 4}}, {{"slow", "", 1, {}, 1, 4}}), hosts()));  // ranks 1 to 3 between them
  EXPECT_TRUE(on_devices(two_stages({{"fast", "", 1, {}, 1, 4}}, {{"fast", "", 1, {}, 1, 4}}), hosts()));
}

/// Both stages of a device stand on it.
TEST(OnDevices, ChunksShareTheirDevices) {
  const auto chunked = in_chunks(two_stages({{"fast", "", 1, {}, 1, 4}}, {{"fast", "", 1, {}, 1, 4}}), 2);
  ASSERT_TRUE(chunked);
  const auto bound = on_devices(*chunked, hosts());
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->stages[2].replicas, bound->stages[0].replicas);
  EXPECT_EQ(plan::rank_count(*bound), 2);
}

TEST(PoolOfDevices, CountsByTypeZoneAndHostSize) {
  const Pool expected{{"fast", "", 4, 2}, {"slow", "", 2, 2}, {"slow", "", 4, 4}};
  EXPECT_EQ(pool_of_devices(hosts()), expected);
}

}  // namespace
}  // namespace flotilla::search::binding_test
