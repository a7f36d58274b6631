// Transports between GPUs by what was measured: which joins whom, which is chosen, and what it takes of memory and time.
#include "flotilla/simulate/transports.hpp"

#include <gtest/gtest.h>

#include "cluster_fixture.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::simulate {
namespace {

using cluster::LinkLevel;
using cluster::Transport;
using program::CollectiveKind;

constexpr Bytes kilobyte{1000}, megabyte{1'000'000}, per_connection{1 << 20};

/// Two hosts of two measured GPUs each. Through the hosts: copies of 10 GB/s, 1 and 0.1 GB/s between.
cluster::Profile gpus() {
  auto type = fixture::device_type("gpu", 50, 10);
  type.kind = cluster::DeviceKind::gpu;
  type.to_device = type.to_host = {Seconds{1e-6}, {1e10}};
  type.host_memory = {8LL << 30};
  type.nccl_memory = per_connection;
  return fixture::uniform_cluster(2, 2, type);
}

cluster::DeviceLink by_nccl(LinkLevel level, const std::string& from, const std::string& to, double latency, double rate) {
  cluster::DeviceLink known{Transport::nccl, fixture::link(level, from, to, latency, rate), ""};
  known.link.sum_pieces = known.link.pieces;
  return known;
}

/// NCCL inside hosts, 100 GB/s, which needs more time to start; not between them.
cluster::Profile nccl_inside() {
  auto profile = gpus();
  for (const char* host : {"h0", "h1"}) profile.device_links.push_back(by_nccl(LinkLevel::node, host, host, 20e-6, 1e11));
  profile.device_links.push_back({Transport::nccl, {LinkLevel::zone, "h0", "h1", {}}, "rank 2 on h1: no answer within 8 s in joining"});
  return profile;
}

program::Group group(std::vector<int> ranks) {
  program::Group g{program::Group::Kind::data, {}};
  for (int r : ranks) g.members.push_back(Rank{r});
  return g;
}

TEST(Transports, JoinWhatPassedItsProofAndGpusAlone) {
  auto profile = nccl_inside();
  const auto joins = [&](std::vector<int> ranks) { return cluster::joins(profile, Transport::nccl, group(std::move(ranks)).members); };
  EXPECT_TRUE(joins({0, 1}));
  EXPECT_TRUE(joins({2, 3}));
  EXPECT_FALSE(joins({1, 2})) << "refused between the hosts";
  EXPECT_FALSE(joins({0, 1, 2}));
  EXPECT_TRUE(cluster::joins(profile, Transport::host, group({0, 1, 2}).members));
  profile.device_links.pop_back();
  EXPECT_FALSE(joins({1, 2})) << "nothing is known between hosts";
  profile.device_links.push_back(by_nccl(LinkLevel::zone, "h8", "h9", 1e-6, 1e10));
  EXPECT_TRUE(joins({1, 2})) << "measured between other hosts";
  auto cpu = fixture::device_type("cpu", 50, 10);
  profile.device_types.push_back(cpu);
  profile.devices[1].type = "cpu";
  EXPECT_FALSE(joins({0, 1}));
}

TEST(Transports, TheFasterOneIsTakenBySize) {
  const auto profile = nccl_inside();
  const ProfileCost cost{profile};
  const auto message = [&](Bytes size) { return cost.message(Rank{0}, Rank{1}, size).time.value; };
  EXPECT_NEAR(message(kilobyte), 5e-6 + 1e-6 + 2 * (1e-6 + 1e-7), 1e-12) << "through the hosts";
  EXPECT_NEAR(message(megabyte), 20e-6 + 1e-5, 1e-12) << "by NCCL";
  EXPECT_EQ(cost.by_transport(Rank{0}, Rank{2}, megabyte).of(Transport::nccl), std::nullopt);
  const auto sums = cost.by_transport(CollectiveKind::all_reduce, group({0, 1}), megabyte, {4});
  EXPECT_NEAR(sums.of(Transport::nccl)->time.value, 2 * (20e-6 + 0.5e-5), 1e-12) << "two halves of half a megabyte";
  EXPECT_GT(sums.of(Transport::host)->time, sums.of(Transport::nccl)->time);
  EXPECT_EQ(cost.by_transport(CollectiveKind::reduce_scalars, group({0, 1}), {8}, {8}).of(Transport::nccl), std::nullopt)
      << "fp64 is summed on hosts";
}

TEST(Transports, PathsOfGroupsThatNcclJoinsAreTheirOwn) {
  const auto profile = nccl_inside();
  auto one_sided = profile;
  one_sided.device_links.front().link.pieces.front().bandwidth = {2e11};
  const ProfileCost same{profile}, other{one_sided};
  EXPECT_EQ(same.path(group({0, 1})), same.path(group({2, 3})));
  EXPECT_EQ(same.path(Rank{0}, Rank{1}), same.path(Rank{2}, Rank{3}));
  EXPECT_NE(other.path(group({0, 1})), other.path(group({2, 3})));
  EXPECT_NE(other.path(Rank{0}, Rank{1}), other.path(Rank{2}, Rank{3}));
}

/// The library's own sum is what NCCL makes of it; a group that stages sums in the members' order.
TEST(Transports, TheLibrarysSumIsForecastWhereNcclJoins) {
  const auto profile = nccl_inside();
  const ProfileCost cost{profile};
  auto library = group({0, 1});
  library.algorithm = program::Group::Algorithm::library_all_reduce;
  const auto of = [&](const program::Group& g, Transport t) {
    return cost.by_transport(CollectiveKind::all_reduce, g, megabyte, {4}).of(t);
  };
  EXPECT_EQ(of(library, Transport::host)->time, of(group({0, 1}), Transport::host)->time);
  EXPECT_NEAR(of(library, Transport::nccl)->time.value, 2 * (20e-6 + 0.5e-5), 1e-12) << "twice round a ring of two";
}

plan::Plan two_by_two() {
  auto plan = plan::even_plan(model::built_in("gpt2-mini"), 64, 8, Precision::fp32, 2, 2, 1, 2);
  int next = 0;
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type = "gpu", replica.devices = {Rank{next++}};
  return plan;
}

/// Replicas of a stage share a host, stages do not.
TEST(Transports, AForecastSaysWhatWasChosenAndCountsItsMemory) {
  const auto plan = two_by_two();
  const auto profile = nccl_inside(), without = gpus();
  const auto forecast = ProgramForecaster{profile, fixture::placed(profile), {}}.forecast(plan);
  const auto through_hosts = ProgramForecaster{without, fixture::placed(without), {}}.forecast(plan);
  const auto& use = forecast.transports[static_cast<std::size_t>(Transport::nccl)];
  EXPECT_GE(use.groups, 2) << "a data-parallel group for each stage";
  EXPECT_EQ(use.pairs, 0);
  EXPECT_LT(use.by_nccl, use.through_hosts);
  EXPECT_EQ(through_hosts.transports, TransportUses{});
  EXPECT_LT(forecast.iteration, through_hosts.iteration);
  for (std::size_t k = 0; k < forecast.kinds.size(); ++k) {
    const Bytes more = forecast.kinds[k].memory.runtime_constant - through_hosts.kinds[0].memory.runtime_constant;
    EXPECT_EQ(more, per_connection * (use.groups / 2)) << "one other member in each group of a rank";
  }
}

}  // namespace
}  // namespace flotilla::simulate
