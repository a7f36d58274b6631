#include <gtest/gtest.h>

#include "plan/random_plan.hpp"

namespace flotilla::plan {
namespace {

TEST(Route, DealsContiguousRuns) {
  Plan plan{model::built_in("gpt2-tiny"), 8, 12, 2, Precision::fp32, ScheduleKind::gpipe, {}};
  plan.stages = {{0, 4, Recompute::none, {{"", "", 1, {}, 1, 2}, {"", "", 1, {}, 1, 6}, {"", "", 1, {}, 1, 4}}}};
  std::vector<int> replicas;
  for (int q = 0; q < 6; ++q) replicas.push_back(route(plan, 0, q));
  EXPECT_EQ(replicas, (std::vector{0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(first_sequence(plan, 0, 0), 0);
  EXPECT_EQ(first_sequence(plan, 0, 1), 2);
  EXPECT_EQ(first_sequence(plan, 0, 2), 8);
  EXPECT_EQ(plan.stages[0].replicas[1].microbatches(2), 3);
}

TEST(Route, AgreesWithFirstSequence) {
  std::mt19937 random{5};
  for (int round = 0; round < 200; ++round) {
    const Plan plan = testing::random_plan(random);
    for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
      std::vector<int> handled(plan.stages[static_cast<std::size_t>(s)].replicas.size(), 0);
      for (int quantum = 0; quantum < plan.global_batch / plan.quantum; ++quantum) {
        const int r = route(plan, s, quantum);
        const Replica& replica = plan.stages[static_cast<std::size_t>(s)].replicas[static_cast<std::size_t>(r)];
        const int first = first_sequence(plan, s, r);
        ASSERT_LE(first, quantum * plan.quantum);
        ASSERT_GE(first + replica.sequences, (quantum + 1) * plan.quantum);
        handled[static_cast<std::size_t>(r)] += plan.quantum;
      }
      for (std::size_t r = 0; r < handled.size(); ++r)
        ASSERT_EQ(handled[r], plan.stages[static_cast<std::size_t>(s)].replicas[r].sequences);
    }
  }
}

TEST(PlaceOf, FindsEveryRankOnce) {
  std::mt19937 random{6};
  for (int round = 0; round < 100; ++round) {
    const Plan plan = testing::random_plan(random);
    for (int r = 0; r < rank_count(plan); ++r) {
      const Place place = place_of(plan, Rank{r});
      ASSERT_GE(place.stage, 0);
      const Stage& stage = plan.stages[static_cast<std::size_t>(place.stage)];
      ASSERT_EQ(stage.replicas[static_cast<std::size_t>(place.replica)].devices[static_cast<std::size_t>(place.tensor_index)], Rank{r});
    }
    ASSERT_EQ(place_of(plan, Rank{rank_count(plan)}), Place{});
  }
}

}  // namespace
}  // namespace flotilla::plan
