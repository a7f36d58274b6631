#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cluster_fixture.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "support/refusal.hpp"

namespace flotilla::profile_cost_test {
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
  const double made_up = ProfileCost{profile}.collective(program::CollectiveKind::all_reduce, group({0, 1}), {16000}, {4}, 1).time.value;
  for (auto& link : profile.links) link.sum_pieces = {{Bytes{0}, Seconds{50e-6}, {1e9}}};
  const ProfileCost costs{profile};
  const auto sum = [&](std::vector<int> ranks) {
    return costs.collective(program::CollectiveKind::all_reduce, group(std::move(ranks)), {16000}, {4}, 1).time.value;
  };
  EXPECT_NEAR(sum({0, 1}), 2 * (50e-6 + 8e-6), 1e-15) << "two halves of 8000 bytes each way";
  EXPECT_NEAR(sum({0, 1, 2, 3}), 2 * (50e-6 + 3 * 4e-6), 1e-15) << "two further members add what the bytes take";
  EXPECT_NE(sum({0, 1}), made_up);
}

/// Both move both ways at once; together they are a sum of the same bytes.
TEST(ProfileCost, TokensThatAreSharedTakeHalvesOfAMeasuredSum) {
  auto profile = fixture::uniform_cluster(1, 4);
  for (auto& link : profile.links) link.sum_pieces = {{Bytes{0}, Seconds{50e-6}, {1e9}}};
  const ProfileCost costs{profile};
  const auto seconds = [&](program::CollectiveKind kind, int members, std::int64_t bytes) {
    std::vector<int> ranks(static_cast<std::size_t>(members));
    std::iota(ranks.begin(), ranks.end(), 0);
    return costs.collective(kind, group(std::move(ranks)), {bytes}, {4}).time.value;
  };
  EXPECT_NEAR(seconds(program::CollectiveKind::all_gather, 2, 8000), 50e-6 + 8e-6, 1e-15);
  EXPECT_NEAR(seconds(program::CollectiveKind::all_gather, 4, 4000), 50e-6 + 3 * 4e-6, 1e-15);
  EXPECT_NEAR(seconds(program::CollectiveKind::reduce_scatter, 4, 16000), 50e-6 + 3 * 4e-6, 1e-15);
  EXPECT_NEAR(seconds(program::CollectiveKind::all_gather, 4, 4000) + seconds(program::CollectiveKind::reduce_scatter, 4, 16000),
              seconds(program::CollectiveKind::all_reduce, 4, 16000), 1e-15);
  EXPECT_NEAR(seconds(program::CollectiveKind::reduce_scalars, 2, 8), 5e-6 + 8e-9, 1e-15) << "one message, which needs no such thing";
}

TEST(ProfileCost, MeasuredTimesAreTakenAsTheyAre) {
  auto profile = fixture::uniform_cluster(1, 1);
  profile.operation_times.push_back({"slow", "mlp_forward", 1, 2, 64, Precision::fp32, {0.125}, 0.03});
  const auto cost = ProfileCost{profile}.operation(mini, "slow", Operation::mlp_forward, shape);
  EXPECT_EQ(cost.time.value, 0.125);
  EXPECT_EQ(cost.relative_error, 0.03);
  EXPECT_FALSE(cost.estimated);
}

/// The error of a size that was not measured goes to the ends between which its time lies: flat, or in proportion.
TEST(ProfileCost, ErrorsGrowWhereTheSizeWasNotMeasured) {
  auto profile = fixture::uniform_cluster(1, 1);
  profile.device_types[0].peak_fp32.value = profile.device_types[0].memory_bandwidth.value = 1e30;  // no floor
  const auto measured = [&](int sequences, double seconds) {
    profile.operation_times.push_back({"slow", "mlp_forward", 1, sequences, 64, Precision::fp32, {seconds}, 0.03});
  };
  const auto error = [&](int sequences) {
    return ProfileCost{profile}.operation(mini, "slow", Operation::mlp_forward, {sequences, 64, 1, 0, Precision::fp32}).relative_error;
  };
  measured(1, 4);
  EXPECT_NEAR(error(1), 0.03, 1e-12);
  EXPECT_NEAR(error(16), 0.03 + 60.0 / 64, 1e-12) << "64 in proportion, 4 at least";
  measured(4, 8);
  EXPECT_NEAR(error(4), 0.03, 1e-12);
  EXPECT_NEAR(error(16), 0.03 + (32 - 24.0) / 32, 1e-12) << "as steep as before: 24";
  measured(16, 20);
  EXPECT_NEAR(error(16), 0.03, 1e-12);
  EXPECT_NEAR(error(8), 0.03 + 4.0 / 12, 1e-12) << "12 on the line, 16 at most";
}

/// What a device's own peak allows is a floor: one that is reached already leaves nothing open.
TEST(ProfileCost, OfASizeThatWasNotMeasuredThePeakIsAFloor) {
  auto profile = fixture::uniform_cluster(1, 1);
  const model::LayerShape one{1, 64, 1, 0, Precision::fp32}, many{16, 64, 1, 0, Precision::fp32};
  const auto at_peak = ProfileCost{profile}.operation(mini, "slow", Operation::mlp_forward, one).time;
  const auto floor = ProfileCost{profile}.operation(mini, "slow", Operation::mlp_forward, many).time;
  for (const double times : {1.0, 2.0}) {
    profile.operation_times = {{"slow", "mlp_forward", 1, 1, 64, Precision::fp32, at_peak * times, 0}};
    const auto cost = ProfileCost{profile}.operation(mini, "slow", Operation::mlp_forward, many);
    EXPECT_NEAR(cost.relative_error, std::max(0.0, 1 - floor / cost.time), 1e-12);
    EXPECT_LE(cost.relative_error, 1 - 1 / times + 0.05) << "of twice the floor, half";
  }
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

TEST(ProfileCost, WhatProbesLeaveOutGoesByItsBytes) {
  auto profile = fixture::uniform_cluster(1, 1);
  profile.operation_times.push_back({"slow", "block_end_forward", 1, 2, 64, Precision::fp32, {0.25}, 0.03});
  const auto again = ProfileCost{profile}.operation(mini, "slow", Operation::block_again, shape);
  // Three rows of width d pass there; here two norms, each a row in and one out, and GELU over four times the width.
  EXPECT_NEAR(again.time.value, 0.25 * 12 / 3, 1e-9);
  EXPECT_NEAR(again.relative_error, 0.18, 1e-12);
  EXPECT_TRUE(again.estimated);
}

TEST(ProfileCost, SharedTokensDivideRowsAndLeaveProducts) {
  auto profile = fixture::uniform_cluster(1, 1);
  fixture::measure(profile, mini, 64, Precision::fp32, {2}, {2});
  const ProfileCost costs{profile};
  model::LayerShape whole = shape;
  whole.tensor_parallel = 2;
  model::LayerShape shared = whole;
  shared.sequence_parallel = true;
  const auto ratio = [&](Operation operation) {
    return costs.operation(mini, "slow", operation, shared).time / costs.operation(mini, "slow", operation, whole).time;
  };
  EXPECT_NEAR(ratio(Operation::block_end_forward), 0.5, 1e-9);
  EXPECT_NEAR(ratio(Operation::block_begin_backward), 0.5, 1e-9);
  EXPECT_EQ(ratio(Operation::mlp_forward), 1);
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

/// By the norm's own rate where that was measured, else at the rate of the memory.
TEST(ProfileCost, SquaredNormIsPerElement) {
  auto profile = fixture::uniform_cluster(1, 1);
  const auto plan = plan::even_plan(mini, 64, 2, Precision::fp32, 1, 1, 1, 2);
  const auto program = program::lower(plan, fixture::placed(profile));
  auto c = program.classes.front();
  c.device_type = "slow";
  const auto norm = std::ranges::find_if(c.instructions, [](const auto& i) { return i.template as<program::SquaredNorm>() != nullptr; });
  ASSERT_NE(norm, c.instructions.end());
  const auto elements =
      static_cast<double>(c.parts.at(static_cast<std::size_t>(norm->as<program::SquaredNorm>()->part)).trained_elements());
  const auto seconds = [&] { return ProfileCost{profile}.compute(program, c, *norm, 2).time.value; };
  EXPECT_DOUBLE_EQ(seconds(), 4 * elements / 10e9);
  profile.operation_times.push_back({"slow", "squared_norm", 1, 1, 1, Precision::fp32, {0.004}, 0.1});
  EXPECT_DOUBLE_EQ(seconds(), 4e-9 * elements);
}

TEST(ProfileCost, UnknownTypeAndRankAreNamed) {
  const auto profile = fixture::uniform_cluster(1, 2);
  const ProfileCost costs{profile};
  EXPECT_NE(tests::refusal([&] { costs.operation(mini, "H9", Operation::mlp_forward, shape); }).find("'H9'"), std::string::npos);
  EXPECT_NE(tests::refusal([&] { costs.message(Rank{0}, Rank{7}, {8}); }).find("rank 7"), std::string::npos);
  auto peakless = profile;
  peakless.device_types[0].peak_fp32 = {0};
  EXPECT_NE(
      tests::refusal([&] { ProfileCost{peakless}.operation(mini, "slow", Operation::mlp_forward, shape); }).find("no peak rate in fp32"),
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

/// On their way through the hosts' memory.
TEST(ProfileCost, WhatGpusSendAndGetIsCopied) {
  auto profile = fixture::uniform_cluster(1, 4);
  const auto plain = profile;
  auto gpu = profile.device_types.front();
  gpu.name = "gpu";
  gpu.kind = cluster::DeviceKind::gpu;
  gpu.to_device = {Seconds{2e-6}, {1e9}};
  gpu.to_host = {Seconds{3e-6}, {4e9}};
  profile.device_types.push_back(gpu);
  profile.devices[1].type = profile.devices[2].type = "gpu";
  const ProfileCost costs{profile}, before{plain};
  constexpr Bytes size{8000};
  constexpr double to_device = 2e-6 + 8e-6, to_host = 3e-6 + 2e-6;
  const auto more = [&](int from, int to) {
    return (costs.message(Rank{from}, Rank{to}, size).time - before.message(Rank{from}, Rank{to}, size).time).value;
  };
  EXPECT_EQ(more(0, 3), 0);
  EXPECT_NEAR(more(0, 1), to_device, 1e-15);
  EXPECT_NEAR(more(1, 0), to_host, 1e-15);
  EXPECT_NEAR(more(1, 2), to_host + to_device, 1e-15);
  EXPECT_NE(costs.path(Rank{0}, Rank{1}), costs.path(Rank{0}, Rank{3})) << "ranks of two types have unlike timelines";
  const auto sums = [&](program::CollectiveKind kind, std::vector<int> ranks) {
    const auto members = group(std::move(ranks));
    return (costs.collective(kind, members, size, {4}).time - before.collective(kind, members, size, {4}).time).value;
  };
  using program::CollectiveKind;
  EXPECT_EQ(sums(CollectiveKind::all_reduce, {0, 3}), 0);
  EXPECT_NEAR(sums(CollectiveKind::all_reduce, {0, 1, 2}), to_host + to_device, 1e-15) << "each copies its own at the same time";
  EXPECT_NEAR(sums(CollectiveKind::reduce_scalars, {1, 2}), to_host, 1e-15) << "the host reads the totals";
}

/// Groups of two types on two hosts that are joined alike: each adds by its own type's memory, whichever was asked for first.
TEST(ProfileCost, WhatGroupsOfOneTypeTakeSaysNothingOfAnothers) {
  auto profile = fixture::uniform_cluster(2, 2);
  profile.device_types.push_back(fixture::device_type("fast", 150, 300));
  for (const int rank : {2, 3}) profile.devices[static_cast<std::size_t>(rank)].type = "fast";
  const auto sum = [](const ProfileCost& costs, std::vector<int> ranks) {
    return costs.collective(program::CollectiveKind::all_reduce, group(std::move(ranks)), {1 << 24}, {4}).time.value;
  };
  const double slow = sum(ProfileCost{profile}, {0, 1}), fast = sum(ProfileCost{profile}, {2, 3});
  EXPECT_LT(fast, slow);
  const ProfileCost costs{profile};
  EXPECT_EQ(sum(costs, {0, 1}), slow);
  EXPECT_EQ(sum(costs, {2, 3}), fast);
}

TEST(ProfileCost, DirectSumByHand) {
  auto profile = fixture::uniform_cluster(1, 4);
  profile.operation_times.push_back({"slow", "add", 1, 1, 1, Precision::fp32, {1e-3}, 0});  // 1 ns an element
  const ProfileCost costs{profile};
  // 4000 numbers over 4 members: pieces of 1000 numbers, 4000 bytes. A phase: 5 us latency and three messages of 4 us.
  const double phase = 5e-6 + 3 * 4e-6, add = 3 * 1000 * 1e-9;
  EXPECT_NEAR(costs.collective(program::CollectiveKind::all_reduce, group({0, 1, 2, 3}), {16000}, {4}).time.value, 2 * phase + add, 1e-15);
  EXPECT_EQ(costs.collective(program::CollectiveKind::all_reduce, group({2}), {16000}, {4}).time.value, 0);
  EXPECT_NEAR(costs.collective(program::CollectiveKind::reduce_scatter, group({0, 1, 2, 3}), {16000}, {4}).time.value, phase + add, 1e-15);
  EXPECT_NEAR(costs.collective(program::CollectiveKind::all_gather, group({0, 1}), {4000}, {4}).time.value, 5e-6 + 4e-6, 1e-15);
}

TEST(ProfileCost, SumInTeamsByHand) {
  auto profile = fixture::uniform_cluster(2, 2);
  profile.operation_times.push_back({"slow", "add", 1, 1, 1, Precision::fp32, {1e-3}, 0});  // 1 ns an element
  const ProfileCost costs{profile};
  auto nodes = group({0, 1, 2, 3});
  const double direct = costs.collective(program::CollectiveKind::all_reduce, nodes, {1'600'000}, {4}).time.value;
  nodes.subgroups = program::subgroups_of({nodes.members}, program::placement_of(profile.devices));
  ASSERT_EQ(nodes.subgroups.size(), 1u);
  // 400,000 numbers: inside a node halves of 800 kB at 1 GB/s; between two, quarters of 400 kB at 0.1 GB/s, two at once over one card.
  const double inside = 5e-6 + 8e-4, between = 50e-6 + 2 * 4e-3, add = (200'000 + 100'000) * 1e-9;
  const double sum = costs.collective(program::CollectiveKind::all_reduce, nodes, {1'600'000}, {4}).time.value;
  EXPECT_NEAR(sum, 2 * (inside + between) + add, 1e-12);
  EXPECT_LT(sum, direct);
  EXPECT_NEAR(costs.collective(program::CollectiveKind::reduce_scatter_shards, nodes, {1'600'000}, {4}).time.value, inside + between + add,
              1e-12);
  EXPECT_NEAR(costs.collective(program::CollectiveKind::all_gather_shards, nodes, {800'000}, {2}).time.value,
              5e-6 + 4e-4 + 50e-6 + 2 * 2e-3, 1e-12);
  EXPECT_NE(costs.path(nodes), costs.path(group({0, 1, 2, 3})));
}

TEST(ProfileCost, SlowestPairDecides) {
  const auto profile = fixture::uniform_cluster(2, 2);
  const ProfileCost costs{profile};
  const auto seconds = [&](std::vector<int> ranks) {
    return costs.collective(program::CollectiveKind::all_gather, group(std::move(ranks)), {100'000}, {4}).time.value;
  };
  EXPECT_DOUBLE_EQ(seconds({0, 1}), 5e-6 + 1e-4);
  EXPECT_DOUBLE_EQ(seconds({0, 2}), 50e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2}), 50e-6 + 2e-3);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2, 3}), 50e-6 + 4e-3);  // two on each host send two messages each over its one card
}

/// Hosts h0, h1 in zone a and h2, h3 in zone b; 0.1 GB/s and 50 us between any two, and what both zones' uplinks carry.
cluster::Profile behind_uplinks(double bytes_per_second) {
  auto profile = fixture::uniform_cluster(4, 1);
  for (std::size_t h = 0; h < 4; ++h) profile.devices[h].zone = h < 2 ? "a" : "b";
  profile.links.push_back(fixture::link(cluster::LinkLevel::wide, "a", "b", 50e-6, 1e8));
  profile.operation_times.push_back({"slow", "add", 1, 1, 1, Precision::fp32, {1e-3}, 0});  // 1 ns an element
  profile.uplinks = {{"a", {bytes_per_second}}, {"b", {bytes_per_second}}};
  return profile;
}

TEST(ProfileCost, MessagesShareAnUplink) {
  const auto profile = behind_uplinks(1.6e8);
  const ProfileCost costs{profile};
  const auto seconds = [&](int from, int to, const simulate::Flows& flows) {
    return costs.message(Rank{from}, Rank{to}, {1'600'000}, flows).time.value;
  };
  EXPECT_DOUBLE_EQ(seconds(0, 2, {}), 50e-6 + 0.016);
  EXPECT_DOUBLE_EQ(ProfileCost{behind_uplinks(1e3)}.message(Rank{0}, Rank{2}, {1'600'000}).time.value, 50e-6 + 0.016) << "as its link";
  EXPECT_DOUBLE_EQ(seconds(0, 2, {1, 2, 1}), 50e-6 + 0.02);
  EXPECT_DOUBLE_EQ(seconds(0, 2, {1, 1, 3}), 50e-6 + 0.03);
  EXPECT_DOUBLE_EQ(seconds(0, 2, {4, 1, 3}), 50e-6 + 0.064) << "its host's card is fuller";
  EXPECT_DOUBLE_EQ(seconds(0, 1, {1, 5, 5}), 50e-6 + 0.016) << "inside the zone";
  double last = 0;
  for (int flows = 1; flows < 20; ++flows) {
    EXPECT_GE(seconds(0, 3, {1, flows, flows}), last);
    last = seconds(0, 3, {1, flows, flows});
  }
  EXPECT_EQ(costs.uplink(Rank{0}), costs.uplink(Rank{1}));
  EXPECT_NE(costs.uplink(Rank{0}), costs.uplink(Rank{2}));
}

TEST(ProfileCost, BurstsOfAShapedLineAreNotItsRate) {
  auto profile = behind_uplinks(1e8);
  profile.links.back().pieces = {{Bytes{0}, Seconds{50e-6}, {1e9}}, {Bytes{65536}, Seconds{50e-6 - 65536 * 9e-9}, {1e8}}};
  EXPECT_DOUBLE_EQ(ProfileCost{profile}.message(Rank{0}, Rank{2}, {10'000}).time.value, 50e-6 + 1e-4);
  profile.uplinks.clear();
  EXPECT_DOUBLE_EQ(ProfileCost{profile}.message(Rank{0}, Rank{2}, {10'000}).time.value, 50e-6 + 1e-5);
}

TEST(ProfileCost, WithoutAnUplinkOrWithAHugeOneNothingChanges) {
  auto none = behind_uplinks(1);
  none.uplinks.clear();
  const auto huge = behind_uplinks(1e30);
  const ProfileCost costs{huge}, plain{none};
  EXPECT_LT(plain.uplink(Rank{0}), 0);
  EXPECT_EQ(costs.message(Rank{0}, Rank{3}, {1000}, {2, 3, 4}).time, plain.message(Rank{0}, Rank{3}, {1000}, {2, 3, 4}).time);
  auto all = group({0, 1, 2, 3});
  EXPECT_EQ(costs.collective(program::CollectiveKind::all_reduce, all, {16000}, {4}, 2).time,
            plain.collective(program::CollectiveKind::all_reduce, all, {16000}, {4}, 2).time);
  all.subgroups = program::subgroups_of({all.members}, program::placement_of(huge.devices));
  EXPECT_EQ(costs.collective(program::CollectiveKind::all_reduce, all, {16000}, {4}, {2, 2}).time,
            plain.collective(program::CollectiveKind::all_reduce, all, {16000}, {4}, {2, 2}).time);
}

TEST(ProfileCost, SumsShareUplinksByHand) {
  const auto profile = behind_uplinks(1e8);
  const ProfileCost costs{profile};
  const auto sum = [&](const program::Group& g, const simulate::Flows& flows) {
    return costs.collective(program::CollectiveKind::all_reduce, g, {1'600'000}, {4}, flows).time.value;
  };
  // 400,000 numbers. Between two hosts halves of 800 kB: one message each way over the uplink, as its link was measured.
  EXPECT_NEAR(sum(group({0, 2}), {}), 2 * (50e-6 + 8e-3) + 200'000e-9, 1e-12);
  EXPECT_NEAR(sum(group({0, 2}), {1, 3}), 2 * (50e-6 + 24e-3) + 200'000e-9, 1e-12) << "three such groups at once";
  // Among four quarters of 400 kB: three from each member over its card, but four out of each zone over its uplink.
  auto all = group({0, 1, 2, 3});
  EXPECT_NEAR(sum(all, {}), 2 * (50e-6 + 16e-3) + 300'000e-9, 1e-12);
  // One member here and two there: thirds, two messages over either uplink and over the busiest card.
  EXPECT_NEAR(sum(group({0, 2, 3}), {}), 2 * (50e-6 + 2 * 133'334 * 4e-8) + 266'668e-9, 1e-12);
  // In subgroups: halves of 800 kB inside the zones; then quarters of 400 kB between them, two at once over the uplink.
  all.subgroups = program::subgroups_of({all.members}, program::placement_of(profile.devices));
  ASSERT_EQ(all.subgroups.size(), 1u);
  EXPECT_NEAR(sum(all, {}), 2 * (50e-6 + 8e-3) + 200'000e-9 + 2 * (50e-6 + 8e-3) + 100'000e-9, 1e-12);
  auto measured = profile;
  for (auto& link : measured.links) link.sum_pieces = {{Bytes{0}, Seconds{1e-3}, {5e7}}};
  const ProfileCost halves{measured};
  EXPECT_NEAR(halves.collective(program::CollectiveKind::all_reduce, group({0, 1, 2, 3}), {1'600'000}, {4}, {1, 4}).time.value,
              2 * (1e-3 + 64e-3), 1e-12)
      << "sixteen quarters over an uplink";
  EXPECT_NEAR(halves.collective(program::CollectiveKind::all_reduce, group({0, 1, 2, 3}), {1'600'000}, {4}).time.value, 2 * (1e-3 + 24e-3),
              1e-12)
      << "the members' own additions take longer";
}

TEST(ProfileCost, SomeThatStandForManyShareUplinksAsTheManyDo) {
  const auto profile = behind_uplinks(1e8);
  const double seconds = ProfileCost{profile}.sum_over_many({Rank{0}, Rank{1}, Rank{2}, Rank{3}}, 8, {3'200'000}, {4}, {}).time.value;
  EXPECT_NEAR(seconds, 2 * (50e-6 + 16 * 4e-3) + 700'000e-9, 1e-12) << "four in each zone";
}

TEST(ProfileCost, LinkOfANamedHostCountsForItsPairsOnly) {
  auto profile = fixture::uniform_cluster(3, 2);
  profile.links.push_back(fixture::link(cluster::LinkLevel::zone, "h0", "h1", 1e-3, 1e9));
  const ProfileCost costs{profile};
  EXPECT_NEAR(costs.message(Rank{0}, Rank{2}, {0}).time.value, 1e-3, 1e-12);
  EXPECT_NEAR(costs.collective(program::CollectiveKind::all_gather, group({0, 4}), {0}, {4}).time.value, 50e-6, 1e-12);
  EXPECT_NEAR(costs.collective(program::CollectiveKind::all_gather, group({1, 3, 5}), {0}, {4}).time.value, 1e-3, 1e-12);
  EXPECT_NE(costs.path(group({0, 2})), costs.path(group({0, 4})));
  EXPECT_EQ(costs.path(group({0, 4})), costs.path(group({1, 5})));
}

}  // namespace
}  // namespace flotilla::profile_cost_test
