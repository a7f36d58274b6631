#include <gtest/gtest.h>

#include <random>

#include "cluster_fixture.hpp"
#include "fake_cost.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "machine/interpret.hpp"
#include "oracle.hpp"
#include "program/random_plan.hpp"

namespace flotilla::rank_partition_test {
namespace {

using fixture::FakeCost;

plan::Plan even(int data, int pipeline, int tensor, int batch) {
  auto plan = plan::even_plan(model::built_in("gpt2-mini"), 32, batch, Precision::fp32, data, pipeline, tensor, 2);
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type = "slow";
  return plan;
}

std::size_t kinds_of(const plan::Plan& plan) { return interpret(program::lower(plan, {}), FakeCost{}).kinds.size(); }

TEST(RankPartition, ReplicasAndTensorMembersAreOneKindPerStage) {
  EXPECT_EQ(kinds_of(even(4, 1, 1, 16)), 1u);
  EXPECT_EQ(kinds_of(even(4, 2, 1, 16)), 2u);
  EXPECT_EQ(kinds_of(even(2, 3, 2, 16)), 3u);
}

TEST(RankPartition, AReplicaWithAnotherShareIsAKindOfItsOwn) {
  EXPECT_EQ(kinds_of(even(3, 2, 1, 17)), 4u);  // two replicas handle 6 sequences, one 5
}

TEST(RankPartition, RanksOnDifferentPathsAreTold) {
  auto profile = fixture::uniform_cluster(2, 2);
  auto plan = even(2, 2, 1, 8);
  // Column 0 stays inside host 0, column 1 inside host 1: alike. Then column 0 crosses between hosts as column 1 does: alike again. At last
  // one column stays inside its host and the other crosses: told apart.
  const auto kinds = [&](std::vector<int> ranks) {
    std::size_t next = 0;
    for (auto& stage : plan.stages)
      for (auto& replica : stage.replicas) replica.devices = {Rank{ranks[next++]}};
    return interpret(program::lower(plan, {}), simulate::ProfileCost{profile}).kinds.size();
  };
  EXPECT_EQ(kinds({0, 2, 1, 3}), 2u);
  EXPECT_EQ(kinds({0, 1, 2, 3}), 2u);
  profile.devices[2].host = "h0";  // hosts {0, 1, 2} and {3}
  EXPECT_EQ(kinds({0, 2, 1, 3}), 4u);
}

TEST(RankPartition, ReplicasThatStraddleHostsAreNotToldApartWithoutEnd) {
  // 60 pipelines of 4 on hosts of 8: half a host at the end of every other stage tells one column from the next, and that one from its
  // neighbour on the next stage's host, and so on to the last.
  const auto profile = fixture::uniform_cluster(30, 8);
  const auto forecast = interpret(program::lower(even(60, 4, 1, 240), {}), simulate::ProfileCost{profile});
  EXPECT_EQ(forecast.kinds.size(), 4u);
  const auto aligned = interpret(program::lower(even(64, 4, 1, 256), {}), simulate::ProfileCost{fixture::uniform_cluster(32, 8)});
  EXPECT_EQ(aligned.kinds.size(), 4u);
  // Up to the sums over a few members less, whose pieces are 64/60 as large, the typical host is that of the aligned plan.
  EXPECT_NEAR(forecast.iteration / aligned.iteration, 1, 0.067);
}

TEST(RankPartition, MergedAndUnmergedRunsAgreeToTheLastBit) {
  std::mt19937_64 random{11};
  const auto profile = fixture::uniform_cluster(4, 4);
  for (int round = 0; round < 60; ++round) {
    const auto plan = fixture::random_plan(random, profile, model::built_in(round % 2 ? "gpt2-tiny" : "opt-post-tiny"), 16, 16);
    const auto program = program::lower(plan, {});
    FakeCost merged;
    merged.compute_seconds = [](const program::Instruction& instruction, int sequences) {
      return 0.01 * sequences + 0.001 * static_cast<double>(instruction.name.size());
    };
    FakeCost unmerged = merged;
    unmerged.distinct_paths = true;
    const auto a = interpret(program, merged), b = interpret(program, unmerged);
    EXPECT_EQ(a.iteration, b.iteration) << plan::summary(plan);
    EXPECT_LE(a.kinds.size(), b.kinds.size());
    for (const auto& kind : a.kinds)
      for (const auto& single : b.kinds) {
        const bool same = std::ranges::find(kind.ranks, single.ranks.front()) != kind.ranks.end();
        for (std::size_t activity = 0; same && activity < simulate::activity_count; ++activity)
          EXPECT_NEAR(kind.breakdown.seconds[activity].value, single.breakdown.seconds[activity].value, 1e-12 * a.iteration.value);
      }
  }
}

TEST(RankPartition, MachineAgreesWithThePlainReadingOfThePrograms) {
  std::mt19937_64 random{12};
  const auto profile = fixture::without_contention(fixture::uniform_cluster(2, 4));
  const simulate::ProfileCost cost{profile};
  for (int round = 0; round < 40; ++round) {
    auto plan = fixture::random_plan(random, profile, model::built_in("gpt2-tiny"), 16, 8);
    plan.shard_optimizer = round % 3 == 0;
    const auto program = program::lower(plan, round % 2 ? fixture::placed(profile) : program::Runtime{});
    EXPECT_NEAR(interpret(program, cost).iteration.value / fixture::Oracle(program, cost).run(), 1, 1e-12) << plan::summary(plan);
  }
}

/// Any valid plan, on devices that the profile knows.
plan::Plan any_plan(std::mt19937& random, const std::string& type) {
  for (;;) {
    auto plan = tests::any_plan(random);
    if (plan::rank_count(plan) > 8) continue;
    for (auto& stage : plan.stages)
      for (auto& replica : stage.replicas) replica.device_type = type, replica.zone.clear();
    return plan;
  }
}

TEST(RankPartition, PlansWhoseStagesAreDealtUnlikeAreReadPlainlyToo) {
  std::mt19937 random{13};
  const auto profile = fixture::without_contention(fixture::uniform_cluster(2, 4));
  const simulate::ProfileCost cost{profile};
  for (int round = 0; round < 60; ++round) {
    auto plan = any_plan(random, profile.devices.front().type);
    plan.shard_optimizer = round % 3 == 0;
    const auto program = program::lower(plan, round % 2 ? fixture::placed(profile) : program::Runtime{});
    EXPECT_NEAR(interpret(program, cost).iteration.value / fixture::Oracle(program, cost).run(), 1, 1e-12) << plan::summary(plan);
  }
}

TEST(RankPartition, InterleavedPlansAreReadPlainlyToo) {
  std::mt19937 random{14};
  const auto profile = fixture::without_contention(fixture::uniform_cluster(2, 4));
  const simulate::ProfileCost cost{profile};
  for (int round = 0; round < 40; ++round) {
    const auto plan = tests::in_chunks(any_plan(random, profile.devices.front().type), random);
    const auto program = program::lower(plan, {});
    EXPECT_NEAR(interpret(program, cost).iteration.value / fixture::Oracle(program, cost).run(), 1, 1e-12) << plan::summary(plan);
  }
}

/// Replicas on nodes of one size take the same part in their sums, and have shares of one size; on nodes of two sizes not.
TEST(RankPartition, TeamsAndSharesAddFewKinds) {
  const auto profile = fixture::uniform_cluster(8, 4);
  auto plan = even(32, 1, 1, 64);
  const auto kinds = [&] { return interpret(program::lower(plan, fixture::placed(profile)), simulate::ProfileCost{profile}).kinds.size(); };
  EXPECT_EQ(kinds(), 1u);
  plan.shard_optimizer = true;
  EXPECT_EQ(kinds(), 1u);
  plan = even(30, 1, 1, 60);
  plan.shard_optimizer = true;
  EXPECT_EQ(kinds(), 2u);
}

TEST(RankPartition, EvaluationProgramsRunToo) {
  const auto profile = fixture::without_contention(fixture::uniform_cluster(2, 4));
  const simulate::ProfileCost cost{profile};
  const auto plan = even(2, 2, 2, 8);
  for (int sequences : {1, 5, 8}) {
    const auto program = program::lower_evaluation(plan, {}, sequences);
    const auto forecast = interpret(program, cost);
    EXPECT_NEAR(forecast.iteration.value / fixture::Oracle(program, cost).run(), 1, 1e-12);
    EXPECT_EQ(forecast.breakdown[simulate::Activity::backward].value, 0) << sequences;
  }
}

}  // namespace
}  // namespace flotilla::rank_partition_test
