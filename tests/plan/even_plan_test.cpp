#include <gtest/gtest.h>

#include <numeric>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::plan::even_plan_test {
namespace {

Plan make(int batch, int data, int pipeline, int tensor, int microbatch, const char* name = "gpt2-mini", std::vector<int> cuts = {}) {
  return even_plan(model::built_in(name), 32, batch, Precision::fp32, data, pipeline, tensor, microbatch, ScheduleKind::gpipe,
                   std::move(cuts));
}

TEST(EvenPlan, NumbersRanksStageByStage) {
  const Plan plan = make(8, 2, 2, 2, 2);
  EXPECT_EQ(rank_count(plan), 8);
  for (int s = 0; s < 2; ++s)
    for (int r = 0; r < 2; ++r)
      for (int t = 0; t < 2; ++t) EXPECT_EQ(place_of(plan, Rank{(s * 2 + r) * 2 + t}), (RankCoordinates{s, r, t}));
  EXPECT_EQ(place_of(plan, Rank{8}), RankCoordinates{});
}

TEST(EvenPlan, SpreadsBlocks) {
  const auto cuts = [](const char* name, int pipeline) {
    std::vector<int> found{0};
    for (const Stage& stage : make(8, 1, pipeline, 1, 1, name).stages) found.push_back(stage.last_layer);
    return found;
  };
  EXPECT_EQ(cuts("gpt2-mini", 1), (std::vector{0, 6}));
  EXPECT_EQ(cuts("gpt2-mini", 2), (std::vector{0, 3, 6}));
  EXPECT_EQ(cuts("gpt2-mini", 3), (std::vector{0, 2, 3, 6}));
  EXPECT_EQ(cuts("gpt2-mini", 4), (std::vector{0, 2, 3, 4, 6}));
  EXPECT_EQ(cuts("gpt2-tiny", 4), (std::vector{0, 1, 2, 3, 4})) << "more stages than blocks: embedding and head stand alone";
}

TEST(EvenPlan, TakesCutsAnywhere) {
  const Plan plan = make(8, 1, 3, 1, 1, "gpt2-mini", {0, 1, 5, 6});
  EXPECT_EQ(plan.stages[0].last_layer, 1);
  EXPECT_EQ(plan.stages[1].last_layer, 5);
  EXPECT_TRUE(validate(plan).empty());
}

TEST(EvenPlan, ChoosesTheLargestQuantumThatIsEven) {
  EXPECT_EQ(make(16, 2, 1, 1, 4).quantum, 4);
  EXPECT_EQ(make(12, 2, 1, 1, 4).quantum, 2) << "3 quanta of 4 would leave one replica with twice the work";
  EXPECT_EQ(make(12, 1, 1, 1, 4).quantum, 4);
  EXPECT_EQ(make(10, 4, 1, 1, 2).quantum, 1);
  EXPECT_EQ(make(7, 2, 1, 1, 3).quantum, 1);
}

TEST(EvenPlan, AnOversizedMicrobatchIsWhatAReplicaHandles) {
  const Plan plan = make(8, 4, 1, 1, 8);
  for (const Replica& replica : plan.stages[0].replicas) {
    EXPECT_EQ(replica.sequences, 2);
    EXPECT_EQ(replica.quanta * plan.quantum, 2);
  }
}

TEST(EvenPlan, IsValidAndEvenForEveryDegree) {
  for (int batch = 1; batch <= 17; ++batch)
    for (int data = 1; data <= std::min(batch, 5); ++data)
      for (int pipeline = 1; pipeline <= 6; ++pipeline)
        for (const int tensor : {1, 3, 8})
          for (int microbatch = 1; microbatch <= 7; ++microbatch) {
            const Plan plan = make(batch, data, pipeline, tensor, microbatch);
            const auto problems = validate(plan);
            ASSERT_TRUE(problems.empty()) << batch << " " << data << " " << pipeline << " " << tensor << " " << microbatch << ": "
                                          << problems.front().where << " " << problems.front().what;
            ASSERT_EQ(microbatch % plan.quantum, 0);
            for (const Stage& stage : plan.stages)
              for (const Replica& replica : stage.replicas) {
                ASSERT_GE(replica.sequences, batch / data - plan.quantum + 1);
                ASSERT_LE(replica.sequences, (batch + data - 1) / data + plan.quantum - 1);
                ASSERT_LE(replica.quanta * plan.quantum, microbatch);
              }
          }
}

TEST(EvenPlan, RefusesWhatCannotBeCut) {
  EXPECT_THROW(make(4, 5, 1, 1, 1), Error);
  EXPECT_THROW(make(4, 0, 1, 1, 1), Error);
  EXPECT_THROW(make(4, 1, 7, 1, 1), Error);
  EXPECT_THROW(make(4, 1, 0, 1, 1), Error);
  EXPECT_THROW(make(4, 1, 1, 9, 1), Error);
  EXPECT_THROW(make(4, 1, 1, 1, 0), Error);
  EXPECT_THROW(make(0, 1, 1, 1, 1), Error);
  EXPECT_THROW(make(std::numeric_limits<int>::max(), std::numeric_limits<int>::max(), 1, 1, 1), Error);
  EXPECT_NO_THROW(make(std::numeric_limits<int>::max(), 2, 1, 1, std::numeric_limits<int>::max()));
  EXPECT_THROW(make(4, 1, 2, 1, 1, "gpt2-mini", {0, 6}), Error);
  EXPECT_THROW(make(4, 1, 2, 1, 1, "gpt2-mini", {0, 0, 6}), Error);
  EXPECT_THROW(make(4, 1, 2, 1, 1, "gpt2-mini", {0, 6, 6}), Error);
  EXPECT_THROW(make(4, 1, 2, 1, 1, "gpt2-mini", {1, 3, 6}), Error);
  EXPECT_THROW(even_plan(model::built_in("gpt2-mini"), 100000, 4, Precision::fp32, 1, 1, 1, 1), Error);
}

}  // namespace
}  // namespace flotilla::plan::even_plan_test
