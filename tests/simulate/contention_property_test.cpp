#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "flotilla/simulate/profile_cost.hpp"
#include "scattered_case.hpp"

// What must hold of forecasts where messages share network cards: random plans scattered over hosts of one to four devices, with links
// from far too slow to far too fast.
namespace flotilla::contention_property_test {
namespace {

using simulate::ProgramForecaster;

using namespace fixture::scattered;

constexpr int cases = 400;

constexpr int changes = 5;
/// The same cluster with something faster.
cluster::Profile faster(std::mt19937_64& random, cluster::Profile profile, int change) {
  auto& type = profile.device_types[random() % profile.device_types.size()];
  if (change == 0)
    for (auto& time : profile.operation_times) time.time = time.time * (random() % 2 ? 1.0 : 0.7);
  if (change == 1) type.peak_fp32.value *= 1.5, type.peak_bf16.value *= 1.5, type.memory_bandwidth.value *= 1.5;
  if (change == 2)
    for (auto& link : profile.links) link.pieces[0].latency = link.pieces[0].latency * 0.5, link.pieces[0].bandwidth.value *= 3;
  if (change == 3) {
    auto& time = profile.operation_times[random() % profile.operation_times.size()].time;
    time = time * 0.5;
  }
  if (change == 4)
    for (auto& time : profile.operation_times)
      if (time.device_type == type.name) time.time = time.time * 0.8;
  return profile;
}

TEST(ContentionProperty, FasterIsNeverSlowerWithoutItAndHardlyWithIt) {
  double worst = 0;
  int shared = 0, slower = 0;
  for (int seed = 0; seed < cases; ++seed) {
    const Case c = random_case(seed);
    const auto free = fixture::without_contention(c.profile);
    const double before = seconds(c.profile, c.plan), before_free = seconds(free, c.plan);
    if (before > before_free * (1 + 1e-9)) ++shared;
    std::mt19937_64 random{static_cast<std::uint64_t>(seed)};
    for (int change = 0; change < changes; ++change) {
      const auto profile = faster(random, c.profile, change);
      const double loss = seconds(profile, c.plan) / before - 1;
      worst = std::max(worst, loss);
      if (loss > 1e-9) ++slower;
      ASSERT_LE(seconds(fixture::without_contention(profile), c.plan), before_free * (1 + 1e-12))
          << "seed " << seed << " change " << change << ": " << plan::summary(c.plan);
    }
  }
  RecordProperty("plans_that_share", shared);
  RecordProperty("comparisons", shared * changes);
  RecordProperty("slower", slower);
  RecordProperty("worst_loss_percent", std::to_string(100 * worst));
  EXPECT_GT(shared, cases / 8);
  EXPECT_LE(worst, 0.01);  // docs/design/forecast.md tells the worst of many more
}

TEST(ContentionProperty, SharingNeverHelps) {
  for (int seed = 0; seed < cases; ++seed) {
    const Case c = random_case(seed);
    EXPECT_GE(seconds(c.profile, c.plan), seconds(fixture::without_contention(c.profile), c.plan) * (1 - 1e-12)) << "seed " << seed;
  }
}

TEST(ContentionProperty, NoCardMovesMoreThanItCan) {
  for (int seed = 0; seed < cases; ++seed) {
    const Case c = random_case(seed);
    const simulate::ProfileCost cost{c.profile};
    const auto program = program::lower(c.plan, fixture::placed(c.profile));
    std::map<std::uint64_t, double> out, in;  // seconds of all lanes, by host
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      const Rank from{static_cast<int>(r)};
      const auto& about = program.classes[static_cast<std::size_t>(program.ranks[r].rank_class)];
      for (const auto& issued : program::expand(program, from)) {
        const auto* message = about.instructions[static_cast<std::size_t>(issued.instruction)].as<program::MessageEnd>();
        if (message == nullptr || !message->sends()) continue;
        const Rank to = program.ranks[r].peers[static_cast<std::size_t>(message->peer)];
        if (cost.host(from) == cost.host(to)) continue;
        const Bytes bytes = message->size.per_sequence * about.sequences(issued.microbatch);
        const double busy = (cost.message(from, to, bytes).time - cost.message(from, to, {0}).time).value / cost.lanes(from, to);
        out[cost.host(from)] += busy;
        in[cost.host(to)] += busy;
      }
    }
    const double iteration = seconds(c.profile, c.plan) * (1 + 1e-9);
    for (const auto& [host, busy] : out) EXPECT_LE(busy, iteration) << "seed " << seed << " out of host " << host;
    for (const auto& [host, busy] : in) EXPECT_LE(busy, iteration) << "seed " << seed << " into host " << host;
  }
}

TEST(ContentionProperty, EveryDeviceAccountsForTheWholeIteration) {
  for (int seed = 0; seed < cases; ++seed) {
    const Case c = random_case(seed);
    const auto forecast = ProgramForecaster{c.profile, {}, {}}.forecast(c.plan);
    for (const auto& kind : forecast.kinds) {
      EXPECT_NEAR(kind.breakdown.total() / forecast.iteration, 1, 1e-9) << "seed " << seed;
      for (Seconds s : kind.breakdown.seconds) EXPECT_GE(s.value, 0) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace flotilla::contention_property_test
