#include <gtest/gtest.h>

#include "flotilla/plan/batch_partition.hpp"
#include "plan/random_plan.hpp"

namespace flotilla::plan::route_test {
namespace {

using Runs = std::vector<Microbatch>;

Plan twelve(std::vector<Replica> replicas) {
  Plan plan{model::built_in("gpt2-tiny"), 8, 12, 2, Precision::fp32, ScheduleKind::gpipe, {}};
  plan.stages = {{0, 4, Recompute::none, std::move(replicas)}};
  return plan;
}

TEST(BatchPartition, GivesEveryReplicaItsTurn) {
  const Plan equal = twelve({{"", "", 1, {}, 1, 6}, {"", "", 1, {}, 1, 6}});
  EXPECT_EQ(partition_batch(equal, 0), (BatchPartition{Runs{{0, 2}, {4, 2}, {8, 2}}, Runs{{2, 2}, {6, 2}, {10, 2}}}));
  EXPECT_EQ(routes(equal, 0), (std::vector{0, 1, 0, 1, 0, 1}));
  // All begin first; then whoever has done the smallest part of its share.
  const Plan unlike = twelve({{"", "", 1, {}, 1, 2}, {"", "", 1, {}, 1, 6}, {"", "", 1, {}, 1, 4}});
  EXPECT_EQ(routes(unlike, 0), (std::vector{0, 1, 2, 1, 2, 1}));
}

TEST(BatchPartition, EndsInAShortMicrobatch) {
  const Plan plan = twelve({{"", "", 1, {}, 2, 10}, {"", "", 1, {}, 1, 2}});
  EXPECT_EQ(partition_batch(plan, 0), (BatchPartition{Runs{{0, 4}, {6, 4}, {10, 2}}, Runs{{4, 2}}}));
}

TEST(BatchPartition, OfAnotherNumberOfSequencesKeepsTheProportions) {
  const Plan plan = twelve({{"", "", 1, {}, 1, 8}, {"", "", 1, {}, 1, 4}});
  EXPECT_EQ(partition_batch(plan, 0, 5), (BatchPartition{Runs{{0, 2}, {4, 1}}, Runs{{2, 2}}}));
  EXPECT_EQ(partition_batch(plan, 0, 1), (BatchPartition{Runs{}, Runs{{0, 1}}}));
}

TEST(BatchPartition, CoversTheBatchOnceInOrderAndFairly) {
  std::mt19937 random{5};
  for (int round = 0; round < 200; ++round) {
    const Plan plan = testing::random_plan(random);
    for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
      const auto& replicas = plan.stages[static_cast<std::size_t>(s)].replicas;
      const BatchPartition dealt = partition_batch(plan, s);
      const auto routed = routes(plan, s);
      ASSERT_EQ(std::ranges::count(routed, -1), 0);
      for (std::size_t r = 0; r < dealt.size(); ++r) {
        const int size = replicas[r].quanta * plan.quantum;
        ASSERT_EQ(static_cast<int>(dealt[r].size()), replicas[r].microbatches(plan.quantum));
        int taken = 0;
        for (std::size_t m = 0; m < dealt[r].size(); ++m) {
          ASSERT_EQ(dealt[r][m].count, std::min(size, replicas[r].sequences - taken));
          ASSERT_TRUE(m == 0 || dealt[r][m].first >= dealt[r][m - 1].last());
          // Nobody is ahead of what has been dealt so far by more than its turn.
          const double progress = static_cast<double>(taken) / replicas[r].sequences;
          for (std::size_t other = 0; other < dealt.size(); ++other) {
            int theirs = 0;
            for (const Microbatch& run : dealt[other])
              if (run.first < dealt[r][m].first) theirs += run.count;
            ASSERT_GE(static_cast<double>(theirs) / replicas[other].sequences, progress - 1e-9);
          }
          taken += dealt[r][m].count;
        }
        ASSERT_EQ(taken, replicas[r].sequences);
      }
    }
  }
}

TEST(PlaceOf, FindsEveryRankOnce) {
  std::mt19937 random{6};
  for (int round = 0; round < 100; ++round) {
    const Plan plan = testing::random_plan(random);
    for (int r = 0; r < rank_count(plan); ++r) {
      const RankCoordinates place = place_of(plan, Rank{r});
      ASSERT_GE(place.stage, 0);
      const Stage& stage = plan.stages[static_cast<std::size_t>(place.stage)];
      ASSERT_EQ(stage.replicas[static_cast<std::size_t>(place.replica)].devices[static_cast<std::size_t>(place.tensor_index)], Rank{r});
    }
    ASSERT_EQ(place_of(plan, Rank{rank_count(plan)}), RankCoordinates{});
  }
}

}  // namespace
}  // namespace flotilla::plan::route_test
