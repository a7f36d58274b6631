// Transports between GPUs by what was measured: which joins whom, which is chosen, and what it takes of memory and time.
#include "flotilla/simulate/transports.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cluster_fixture.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::simulate::transports_test {
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

cluster::DeviceLink by_nccl(LinkLevel level, const std::string& from, const std::string& to, double latency, double rate,
                            Transport transport = Transport::nccl) {
  cluster::DeviceLink known{transport, fixture::link(level, from, to, latency, rate), ""};
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

/// Where NCCL does not join them, the hosts' memory is left.
TEST(Transports, AJobMayWantOneThatIsSlower) {
  const auto profile = cluster::wanting(nccl_inside(), Transport::nccl);
  const ProfileCost cost{profile};
  EXPECT_NEAR(cost.message(Rank{0}, Rank{1}, kilobyte).time.value, 20e-6 + 1e-8, 1e-12) << "by NCCL, though it takes longer";
  EXPECT_NEAR(cost.message(Rank{0}, Rank{2}, kilobyte).time.value,
              ProfileCost{nccl_inside()}.message(Rank{0}, Rank{2}, kilobyte).time.value, 1e-15);
  EXPECT_EQ(cost.collective(CollectiveKind::all_reduce, group({0, 1}), {400}, {4}).time,
            cost.by_transport(CollectiveKind::all_reduce, group({0, 1}), {400}, {4}).of(Transport::nccl)->time);
  const auto hosts = cluster::wanting(nccl_inside(), Transport::host);
  EXPECT_EQ(ProfileCost{hosts}.by_transport(Rank{0}, Rank{1}, megabyte).of(Transport::nccl), std::nullopt);
}

/// The same with MPI on device memory: 10 GB/s inside a host, sooner than NCCL; between the hosts, too.
cluster::Profile three_transports() {
  auto profile = nccl_inside();
  for (const char* host : {"h0", "h1"})
    profile.device_links.push_back(by_nccl(LinkLevel::node, host, host, 2e-6, 1e10, Transport::device_mpi));
  profile.device_links.push_back(by_nccl(LinkLevel::zone, "h0", "h1", 4e-6, 5e9, Transport::device_mpi));
  return profile;
}

TEST(Transports, TheLeastOfThreeIsTaken) {
  const auto profile = three_transports();
  const ProfileCost cost{profile};
  const auto message = [&](int from, int to, Bytes size) { return cost.message(Rank{from}, Rank{to}, size).time.value; };
  EXPECT_NEAR(message(0, 1, kilobyte), 2e-6 + 1e-7, 1e-12) << "by MPI on device memory";
  EXPECT_NEAR(message(0, 1, megabyte), 20e-6 + 1e-5, 1e-12) << "by NCCL";
  EXPECT_NEAR(message(1, 2, megabyte), 4e-6 + 2e-4, 1e-12) << "by MPI on device memory: NCCL does not join the hosts";
  const auto sums = cost.by_transport(CollectiveKind::all_reduce, group({0, 1}), megabyte, {4});
  EXPECT_NEAR(sums.of(Transport::device_mpi)->time.value, 2 * (2e-6 + 0.5e-4), 1e-12);
  auto library = group({0, 1});
  library.algorithm = program::Group::Algorithm::library_all_reduce;
  EXPECT_EQ(cost.by_transport(CollectiveKind::all_reduce, library, megabyte, {4}).of(Transport::device_mpi)->time,
            sums.of(Transport::device_mpi)->time)
      << "MPI has no sum of its own here";
}

TEST(Transports, AJobThatWantsOneDoesWithoutTheThird) {
  const auto seconds = [](Transport wanted, int from, int to, Bytes size) {
    const auto profile = cluster::wanting(three_transports(), wanted);
    return ProfileCost{profile}.message(Rank{from}, Rank{to}, size).time.value;
  };
  EXPECT_NEAR(seconds(Transport::device_mpi, 0, 1, megabyte), 2e-6 + 1e-4, 1e-12) << "though NCCL is faster";
  const auto hosts = gpus();
  EXPECT_NEAR(seconds(Transport::nccl, 1, 2, megabyte), ProfileCost{hosts}.message(Rank{1}, Rank{2}, megabyte).time.value, 1e-12)
      << "through the hosts, where NCCL does not join them";
}

/// What one transport alone tells of two pairs, the path does.
TEST(Transports, PathsDifferByEachTransport) {
  const auto all = three_transports();
  auto slower = all;
  slower.device_links[3].link.pieces.front().bandwidth = {5e9};
  const ProfileCost same{all}, other{slower};
  EXPECT_EQ(same.path(Rank{0}, Rank{1}), same.path(Rank{2}, Rank{3}));
  EXPECT_EQ(same.path(group({0, 1})), same.path(group({2, 3})));
  EXPECT_NE(other.path(Rank{0}, Rank{1}), other.path(Rank{2}, Rank{3}));
  EXPECT_NE(other.path(group({0, 1})), other.path(group({2, 3})));
}

/// A host of eight GPUs that NCCL joins, 100 GB/s; a sum over all of them takes `ratio` of what the pairs predict.
cluster::Profile eight_that_take(double ratio) {
  auto type = gpus().device_types.front();
  auto profile = fixture::uniform_cluster(1, 8, type);
  profile.device_links.push_back(by_nccl(LinkLevel::node, "h0", "h0", 20e-6, 1e11));
  std::vector<int> ranks(8);
  std::iota(ranks.begin(), ranks.end(), 0);
  cluster::GroupSum sum;
  for (const auto& device : profile.devices) sum.members.push_back(cluster::place_of(device));
  const ProfileCost cost{profile};
  const auto predicted = [&](Bytes bytes) {
    return cost.by_transport(CollectiveKind::all_reduce, group(ranks), bytes, {4}).of(Transport::nccl)->time;
  };
  const Seconds start = predicted({64}), more = predicted(100 * megabyte) - start;
  sum.pieces = {{{0}, ratio * start, {100.0 * static_cast<double>(megabyte.count) / (ratio * more.value)}}};
  profile.group_sums = {sum};
  return profile;
}

double seconds_by_nccl(const cluster::Profile& profile, std::vector<int> ranks) {
  return ProfileCost{profile}
      .by_transport(CollectiveKind::all_reduce, group(std::move(ranks)), megabyte, {4})
      .of(Transport::nccl)
      ->time.value;
}

/// What pairs cannot show: that all of a host hold each other up.
TEST(Transports, AWholeGroupsOwnTimeIsTaken) {
  auto by_pairs = eight_that_take(3);
  by_pairs.group_sums.clear();
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7}, some{0, 2, 4, 6, 7}, two{3, 5};
  const auto ratio = [&](const cluster::Profile& profile, const std::vector<int>& ranks) {
    return seconds_by_nccl(profile, ranks) / seconds_by_nccl(by_pairs, ranks);
  };
  EXPECT_NEAR(ratio(eight_that_take(3), all), 3, 0.02);
  EXPECT_NEAR(ratio(eight_that_take(3), some), std::sqrt(3.0), 0.02) << "half way from a pair to all";
  EXPECT_EQ(ratio(eight_that_take(3), two), 1) << "a pair was measured as one";
  EXPECT_NEAR(ratio(eight_that_take(0.5), all), 0.5, 0.01);
  EXPECT_EQ(ratio(eight_that_take(1.03), all), 1) << "no more than fits differ by";
}

/// The forecast, and so the planner, leaves a transport that whole groups are slow over.
TEST(Transports, ASlowGroupGoesThroughTheHosts) {
  const auto chosen = [](const cluster::Profile& profile) {
    auto plan = plan::even_plan(model::built_in("gpt2-mini"), 64, 8, Precision::fp32, 8, 1, 1, 1);
    for (int r = 0; r < 8; ++r) {
      auto& replica = plan.stages[0].replicas[static_cast<std::size_t>(r)];
      replica.device_type = "gpu", replica.devices = {Rank{r}};
    }
    const auto forecast = ProgramForecaster{profile, fixture::placed(profile), {}}.forecast(plan);
    return std::pair{forecast.transports[static_cast<std::size_t>(Transport::nccl)].groups, forecast.iteration};
  };
  const auto [by_pairs, quick] = chosen(eight_that_take(1));
  const auto [by_groups, slow] = chosen(eight_that_take(1000));
  EXPECT_GT(by_pairs, 0);
  EXPECT_EQ(by_groups, 0);
  EXPECT_GT(slow, quick);
}

TEST(Transports, AGroupThatFailedItsProofIsNotJoined) {
  auto profile = eight_that_take(1);
  profile.group_sums[0].pieces.clear();
  profile.group_sums[0].refusal = "rank 3 on h0: wrong sum";
  EXPECT_FALSE(cluster::joins(profile, Transport::nccl, group({0, 1, 2, 3, 4, 5, 6, 7}).members));
  EXPECT_TRUE(cluster::joins(profile, Transport::nccl, group({0, 1, 2, 4, 5, 6, 7}).members));
}

/// NCCL's own sums as they were measured of a pair and of all eight; `pair`, `all`: over what messages between neighbours predict.
cluster::Profile own_sums_that_take(double pair, double all) {
  auto profile = eight_that_take(1);
  profile.group_sums.clear();
  const ProfileCost cost{profile};
  const auto add = [&](int members, double ratio) {
    std::vector<int> ranks(static_cast<std::size_t>(members));
    std::iota(ranks.begin(), ranks.end(), 0);
    auto library = group(ranks);
    library.algorithm = program::Group::Algorithm::library_all_reduce;
    const auto predicted = [&](Bytes bytes) {
      return cost.by_transport(CollectiveKind::all_reduce, library, bytes, {4}).of(Transport::nccl)->time;
    };
    cluster::GroupSum sum;
    sum.by_library = true;
    for (const int r : ranks) sum.members.push_back(cluster::place_of(profile.devices[static_cast<std::size_t>(r)]));
    sum.pieces = {{{0}, Seconds{0}, {static_cast<double>(megabyte.count) / (ratio * predicted(megabyte).value)}}};
    profile.group_sums.push_back(sum);
  };
  add(2, pair);
  add(8, all);
  return profile;
}

double seconds_by_library(const cluster::Profile& profile, std::vector<int> ranks) {
  auto library = group(std::move(ranks));
  library.algorithm = program::Group::Algorithm::library_all_reduce;
  return ProfileCost{profile}.by_transport(CollectiveKind::all_reduce, library, megabyte, {4}).of(Transport::nccl)->time.value;
}

TEST(Transports, NcclsOwnSumsAreWhatTheyMeasured) {
  const auto profile = own_sums_that_take(3, 0.5);
  auto by_links = profile;
  by_links.group_sums.clear();
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7}, five{0, 2, 4, 6, 7}, two{3, 5};
  const auto ratio = [&](const std::vector<int>& ranks) {
    return seconds_by_library(profile, ranks) / seconds_by_library(by_links, ranks);
  };
  EXPECT_NEAR(ratio(two), 3, 1e-9) << "as another pair of that host";
  EXPECT_NEAR(ratio(all), 0.5, 1e-9);
  EXPECT_NEAR(ratio(five), std::sqrt(3 * 0.5), 1e-9) << "half way between";
  EXPECT_EQ(seconds_by_nccl(profile, all), seconds_by_nccl(by_links, all)) << "ours were not measured";
  auto ours = eight_that_take(3);
  EXPECT_EQ(seconds_by_library(ours, all), seconds_by_library(by_links, all)) << "nor NCCL's there";
}

/// A planner that wants NCCL's own sums sees what they measured: the step follows, and the transport.
TEST(Transports, TheForecastOfOwnSumsFollowsTheirTimes) {
  const auto forecast_of = [](const cluster::Profile& profile) {
    auto plan = plan::even_plan(model::built_in("gpt2-mini"), 64, 8, Precision::fp32, 8, 1, 1, 1);
    for (int r = 0; r < 8; ++r) {
      auto& replica = plan.stages[0].replicas[static_cast<std::size_t>(r)];
      replica.device_type = "gpu", replica.devices = {Rank{r}};
    }
    program::Runtime runtime = fixture::placed(profile);
    runtime.library_all_reduce = true;
    const auto forecast = ProgramForecaster{profile, runtime, {}}.forecast(plan);
    return std::pair{forecast.iteration, forecast.transports[static_cast<std::size_t>(Transport::nccl)]};
  };
  const auto [iteration, as_predicted] = forecast_of(own_sums_that_take(1, 1));
  const auto quick = forecast_of(own_sums_that_take(1, 0.5)).second;
  const auto [slow_iteration, slow] = forecast_of(own_sums_that_take(1, 1e5));
  EXPECT_GT(as_predicted.groups, 0);
  EXPECT_EQ(quick.groups, as_predicted.groups);
  EXPECT_LT(quick.takes, as_predicted.takes);
  EXPECT_EQ(slow.groups, 0) << "through the hosts' memory";
  EXPECT_GT(slow_iteration, iteration);
}

TEST(Transports, AGroupIsRefusedByTheSumsThatItMakes) {
  auto profile = own_sums_that_take(1, 1);
  profile.group_sums[1].pieces.clear();
  profile.group_sums[1].refusal = "rank 3 on h0: wrong sum";
  const auto all = group({0, 1, 2, 3, 4, 5, 6, 7}).members;
  EXPECT_TRUE(cluster::joins(profile, Transport::nccl, all)) << "our sums passed";
  EXPECT_FALSE(cluster::joins(profile, Transport::nccl, all, true));
  profile = eight_that_take(1);
  profile.group_sums[0].pieces.clear();
  profile.group_sums[0].refusal = "rank 3 on h0: no answer";
  EXPECT_FALSE(cluster::joins(profile, Transport::nccl, all, true)) << "where messages fail, nothing is sure";
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
  EXPECT_LT(use.takes, use.otherwise) << "through the hosts";
  EXPECT_EQ(through_hosts.transports, TransportUses{});
  EXPECT_LT(forecast.iteration, through_hosts.iteration);
  for (std::size_t k = 0; k < forecast.kinds.size(); ++k) {
    const Bytes more = forecast.kinds[k].memory.runtime_constant - through_hosts.kinds[0].memory.runtime_constant;
    EXPECT_EQ(more, per_connection * (use.groups / 2)) << "one other member in each group of a rank";
  }
}

/// Stages do not share a host, and only MPI on device memory joins hosts.
TEST(Transports, AForecastChoosesAmongThree) {
  const auto profile = three_transports(), two = nccl_inside();
  const auto forecast = ProgramForecaster{profile, fixture::placed(profile), {}}.forecast(two_by_two());
  const auto before = ProgramForecaster{two, fixture::placed(two), {}}.forecast(two_by_two());
  const auto& use = forecast.transports[static_cast<std::size_t>(Transport::device_mpi)];
  EXPECT_EQ(use.pairs, 4) << "activations and gradients of two columns";
  EXPECT_LT(use.takes, use.otherwise);
  EXPECT_LT(forecast.iteration, before.iteration);
  EXPECT_LE(forecast.kinds[0].memory.runtime_constant, before.kinds[0].memory.runtime_constant) << "NCCL's memory is NCCL's alone";
}

/// MPI holds memory for each other GPU, however many groups and pairs two have in common.
TEST(Transports, AForecastCountsWhatMpiHoldsForEachPeer) {
  auto profile = cluster::wanting(three_transports(), Transport::device_mpi), without = profile;
  profile.device_types[0].device_mpi_memory = per_connection;
  const auto plan = two_by_two();
  const auto forecast = ProgramForecaster{profile, fixture::placed(profile), {}}.forecast(plan);
  const auto nothing = ProgramForecaster{without, fixture::placed(without), {}}.forecast(plan);
  const auto& use = forecast.transports[static_cast<std::size_t>(Transport::device_mpi)];
  EXPECT_GE(use.groups, 2);
  EXPECT_EQ(use.pairs, 4);
  for (std::size_t k = 0; k < forecast.kinds.size(); ++k)
    EXPECT_EQ(forecast.kinds[k].memory.runtime_constant - nothing.kinds[k].memory.runtime_constant, per_connection * 3)
        << "the other replica, the other stage's of this column, and the one with which they sum the tied embedding";
}

/// Replicas of a stage share a host, where a step's messages would go through its memory if nobody asked.
TEST(Transports, AForecastIsOfTheOneThatAJobWants) {
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 8, 2, Precision::fp32, 1, 2, 1, 1);
  for (int s = 0; s < 2; ++s)
    plan.stages[static_cast<std::size_t>(s)].replicas[0].device_type = "gpu",
    plan.stages[static_cast<std::size_t>(s)].replicas[0].devices = {Rank{s}};
  const auto automatic = nccl_inside(), wanted = cluster::wanting(nccl_inside(), Transport::nccl);
  const auto of = [&](const cluster::Profile& profile) { return ProgramForecaster{profile, fixture::placed(profile), {}}.forecast(plan); };
  const auto fastest = of(automatic), by_nccl = of(wanted);
  EXPECT_EQ(fastest.transports[static_cast<std::size_t>(Transport::nccl)].pairs, 0);
  EXPECT_EQ(by_nccl.transports[static_cast<std::size_t>(Transport::nccl)].pairs, 2);
  EXPECT_GT(by_nccl.iteration, fastest.iteration);
  EXPECT_GT(by_nccl.kinds[0].memory.runtime_constant, fastest.kinds[0].memory.runtime_constant) << "a connection each way";
}

}  // namespace
}  // namespace flotilla::simulate::transports_test
