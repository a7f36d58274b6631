#include <gtest/gtest.h>

#include <cmath>

#include "cluster_fixture.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla {
namespace {

using model::Operation;
using simulate::ProfileCost;

const model::Config mini = model::built_in("gpt2-mini");
constexpr model::LayerShape shape{2, 64, 1, 0, Precision::fp32};

program::Group group(std::vector<int> ranks) {
  program::Group g{program::Group::Kind::data, {}};
  for (int r : ranks) g.members.push_back(Rank{r});
  return g;
}

TEST(ProfileCost, MeasuredSumsAreTakenAsTheyAre) {
  auto profile = fixture::uniform_cluster(1, 4);
  const double made_up = ProfileCost{profile}.collective(program::Op::all_reduce, group({0, 1}), {16000}, {4}, 1).time.value;
  for (auto& link : profile.links) link.sum_pieces = {{Bytes{0}, Seconds{50e-6}, {1e9}}};
  const ProfileCost costs{profile};
  const auto sum = [&](std::vector<int> ranks) {
    return costs.collective(program::Op::all_reduce, group(std::move(ranks)), {16000}, {4}, 1).time.value;
  };
  EXPECT_NEAR(sum({0, 1}), 2 * (50e-6 + 8e-6), 1e-15) << "two halves of 8000 bytes each way";
  EXPECT_NEAR(sum({0, 1, 2, 3}), 2 * (50e-6 + 3 * 4e-6), 1e-15) << "two further members add what the bytes take";
  EXPECT_NE(sum({0, 1}), made_up);
}

TEST(ProfileCost, MeasuredTimesAreTakenAsTheyAre) {
  auto profile = fixture::uniform_cluster(1, 1);
  profile.operation_times.push_back({"slow", "mlp_forward", 1, 2, 64, Precision::fp32, {0.125}, 0.03});
  const auto cost = ProfileCost{profile}.operation(mini, "slow", Operation::mlp_forward, shape);
  EXPECT_EQ(cost.time.value, 0.125);
  EXPECT_EQ(cost.relative_error, 0.03);
  EXPECT_FALSE(cost.estimated);
}

TEST(ProfileCost, UnmeasuredOperationIsTheRoofline) {
  const auto profile = fixture::uniform_cluster(1, 1);
  const ProfileCost costs{profile};
  for (int o = 0; o < model::operation_count; ++o) {
    const auto operation = static_cast<Operation>(o);
    const auto cost = costs.operation(mini, "slow", operation, shape);
    const double compute = model::flops(mini, shape, operation) / 50e9,
                 memory = static_cast<double>(model::traffic(mini, shape, operation).count) / 10e9;
    EXPECT_DOUBLE_EQ(cost.time.value, std::max(compute, memory)) << model::to_string(operation);
    EXPECT_GT(cost.time.value, 0) << model::to_string(operation);
    EXPECT_TRUE(cost.estimated);
  }
}

TEST(ProfileCost, AnotherDegreeKeepsTheMeasuredEfficiency) {
  auto profile = fixture::uniform_cluster(1, 1);
  fixture::measure(profile, mini, 64, Precision::fp32, {1}, {2});
  model::LayerShape halved = shape;
  halved.tensor_parallel = 2;
  const ProfileCost costs{profile};
  const auto whole = costs.operation(mini, "slow", Operation::mlp_forward, shape),
             half = costs.operation(mini, "slow", Operation::mlp_forward, halved);
  EXPECT_TRUE(half.estimated);
  EXPECT_NEAR(half.time / whole.time, 0.5, 0.05);
}

TEST(ProfileCost, ZeroInAProfileIsNotATime) {
  auto profile = fixture::uniform_cluster(1, 1);
  profile.operation_times.push_back({"slow", "mlp_forward", 1, 2, 64, Precision::fp32, {0}, 0});
  profile.operation_times.push_back({"slow", "adamw", 1, 1, 1, Precision::fp32, {0}, 0});
  const ProfileCost costs{profile};
  EXPECT_GT(costs.operation(mini, "slow", Operation::mlp_forward, shape).time.value, 0);
  EXPECT_GT(costs.adamw("slow", 1000, Precision::fp32).time.value, 0);
}

TEST(ProfileCost, AdamWIsPerElement) {
  auto profile = fixture::uniform_cluster(1, 1);
  EXPECT_DOUBLE_EQ(ProfileCost{profile}.adamw("slow", 1000, Precision::fp32).time.value, 28e3 / 10e9);
  EXPECT_DOUBLE_EQ(ProfileCost{profile}.adamw("slow", 1000, Precision::bf16).time.value, 30e3 / 10e9);
  profile.operation_times.push_back({"slow", "adamw", 1, 1, 1, Precision::fp32, {0.002}, 0.1});
  EXPECT_DOUBLE_EQ(ProfileCost{profile}.adamw("slow", 500'000, Precision::fp32).time.value, 0.001);
}

TEST(ProfileCost, UnknownTypeAndRankAreNamed) {
  const auto profile = fixture::uniform_cluster(1, 2);
  const ProfileCost costs{profile};
  const auto message_of = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return error.kind() == ErrorKind::bad_input ? error.what() : "of another kind";
    }
    return "no error";
  };
  EXPECT_NE(message_of([&] { costs.operation(mini, "H9", Operation::mlp_forward, shape); }).find("'H9'"), std::string::npos);
  EXPECT_NE(message_of([&] { costs.message(Rank{0}, Rank{7}, {8}); }).find("rank 7"), std::string::npos);
  auto peakless = profile;
  peakless.device_types[0].peak_fp32 = {0};
  EXPECT_NE(message_of([&] { ProfileCost{peakless}.operation(mini, "slow", Operation::mlp_forward, shape); }).find("no peak rate in fp32"),
            std::string::npos);
}

TEST(ProfileCost, MessageTakesTheLinkBetweenItsEnds) {
  const auto profile = fixture::uniform_cluster(2, 2);
  const ProfileCost costs{profile};
  EXPECT_DOUBLE_EQ(costs.message(Rank{0}, Rank{1}, {1000}).time.value, 5e-6 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.message(Rank{1}, Rank{2}, {1000}).time.value, 50e-6 + 1e-5);
  EXPECT_EQ(costs.path(Rank{0}, Rank{1}), costs.path(Rank{2}, Rank{3}));
  EXPECT_NE(costs.path(Rank{0}, Rank{1}), costs.path(Rank{1}, Rank{2}));
}

TEST(ProfileCost, DirectSumByHand) {
  auto profile = fixture::uniform_cluster(1, 4);
  profile.operation_times.push_back({"slow", "add", 1, 1, 1, Precision::fp32, {1e-3}, 0});  // 1 ns an element
  const ProfileCost costs{profile};
  // 4000 numbers over 4 members: pieces of 1000 numbers, 4000 bytes. A phase: 5 us latency and three messages of 4 us.
  const double phase = 5e-6 + 3 * 4e-6, add = 3 * 1000 * 1e-9;
  EXPECT_NEAR(costs.collective(program::Op::all_reduce, group({0, 1, 2, 3}), {16000}, {4}).time.value, 2 * phase + add, 1e-15);
  EXPECT_EQ(costs.collective(program::Op::all_reduce, group({2}), {16000}, {4}).time.value, 0);
  EXPECT_NEAR(costs.collective(program::Op::all_gather, group({0, 1}), {4000}, {4}).time.value, 5e-6 + 4e-6, 1e-15);
}

TEST(ProfileCost, SlowestPairDecides) {
  const auto profile = fixture::uniform_cluster(2, 2);
  const ProfileCost costs{profile};
  const auto seconds = [&](std::vector<int> ranks) {
    return costs.collective(program::Op::all_gather, group(std::move(ranks)), {100'000}, {4}).time.value;
  };
  EXPECT_DOUBLE_EQ(seconds({0, 1}), 5e-6 + 1e-4);
  EXPECT_DOUBLE_EQ(seconds({0, 2}), 50e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2}), 50e-6 + 2e-3);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2, 3}), 50e-6 + 4e-3);  // two on each host send two messages each over its one card
}

TEST(ProfileCost, LinkOfANamedHostCountsForItsPairsOnly) {
  auto profile = fixture::uniform_cluster(3, 2);
  profile.links.push_back(fixture::link(cluster::LinkLevel::zone, "h0", "h1", 1e-3, 1e9));
  const ProfileCost costs{profile};
  EXPECT_NEAR(costs.message(Rank{0}, Rank{2}, {0}).time.value, 1e-3, 1e-12);
  EXPECT_NEAR(costs.collective(program::Op::all_gather, group({0, 4}), {0}, {4}).time.value, 50e-6, 1e-12);
  EXPECT_NEAR(costs.collective(program::Op::all_gather, group({1, 3, 5}), {0}, {4}).time.value, 1e-3, 1e-12);
  EXPECT_NE(costs.path(group({0, 2})), costs.path(group({0, 4})));
  EXPECT_EQ(costs.path(group({0, 4})), costs.path(group({1, 5})));
}

}  // namespace
}  // namespace flotilla
