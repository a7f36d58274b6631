#include <gtest/gtest.h>

#include <functional>

#include "flotilla/base/error.hpp"
#include "plan/random_plan.hpp"
#include "support/refusal.hpp"

namespace flotilla::plan::validate_test {
namespace {

/// gpt2-mini, 6 layers: two stages, the first with two replicas, the second a tensor-parallel pair.
Plan good() {
  Plan plan{model::built_in("gpt2-mini"), 64, 16, 2, Precision::fp32, ScheduleKind::one_f_one_b, {}};
  plan.stages = {{0, 4, Recompute::none, {{"", "", 1, {Rank{0}}, 2, 10}, {"", "", 1, {Rank{1}}, 1, 6}}},
                 {4, 6, Recompute::full, {{"", "", 2, {Rank{2}, Rank{3}}, 4, 16}}}};
  return plan;
}

TEST(Validate, AcceptsAGoodPlan) {
  for (const PlanProblem& problem : validate(good())) ADD_FAILURE() << problem.where << ": " << problem.what;
}

TEST(Validate, AcceptsAPlanWithoutDevices) {
  Plan plan = good();
  for (Stage& stage : plan.stages)
    for (Replica& replica : stage.replicas) replica.devices.clear();
  EXPECT_TRUE(validate(plan).empty());
}

struct Break {
  const char* where;
  std::function<void(Plan&)> how;
};

class Broken : public ::testing::TestWithParam<Break> {};

TEST_P(Broken, IsFoundWhereItIs) {
  Plan plan = good();
  GetParam().how(plan);
  const std::vector<PlanProblem> problems = validate(plan);
  ASSERT_FALSE(problems.empty());
  EXPECT_TRUE(std::ranges::any_of(problems, [](const PlanProblem& p) { return p.where == GetParam().where; }))
      << "found at " << problems.front().where << ": " << problems.front().what;
  for (const PlanProblem& p : problems) EXPECT_FALSE(p.what.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Broken,
    ::testing::Values(Break{"model", [](Plan& p) { p.model.heads = 7; }}, Break{"model", [](Plan& p) { p.model.blocks = -1; }},
                      Break{"length", [](Plan& p) { p.length = 0; }}, Break{"length", [](Plan& p) { p.length = p.model.positions + 1; }},
                      Break{"global_batch", [](Plan& p) { p.global_batch = 0; }},
                      Break{"global_batch", [](Plan& p) { p.global_batch = -16; }}, Break{"quantum", [](Plan& p) { p.quantum = 3; }},
                      Break{"quantum", [](Plan& p) { p.quantum = 0; }}, Break{"quantum", [](Plan& p) { p.quantum = -2; }},
                      Break{"quantum", [](Plan& p) { p.quantum = 32; }}, Break{"stages", [](Plan& p) { p.stages.clear(); }},
                      Break{"stages[0].layers", [](Plan& p) { p.stages[0].first_layer = 1; }},
                      Break{"stages[1].layers", [](Plan& p) { p.stages[1].first_layer = 5; }},
                      Break{"stages[1].layers", [](Plan& p) { p.stages[1].first_layer = 3; }},
                      Break{"stages[1].layers", [](Plan& p) { p.stages[1].last_layer = 7; }},
                      Break{"stages[1].layers", [](Plan& p) { p.stages[1].last_layer = 5; }},
                      Break{"stages[0].layers", [](Plan& p) { p.stages[0].last_layer = 0; }},
                      Break{"stages[1].layers", [](Plan& p) { p.stages[1].last_layer = std::numeric_limits<int>::max(); }},
                      Break{"stages[0].layers", [](Plan& p) { p.stages[0].first_layer = std::numeric_limits<int>::max(); }},
                      Break{"stages[0].replicas", [](Plan& p) { p.stages[0].replicas.clear(); }},
                      Break{"stages[0].replicas", [](Plan& p) { p.stages[0].replicas[1].sequences = 8; }},
                      Break{"stages[1].replicas", [](Plan& p) { p.stages[1].replicas[0].sequences = 14; }},
                      Break{"stages[0].replicas[1].sequences", [](Plan& p) { p.stages[0].replicas[1].sequences = 5; }},
                      Break{"stages[0].replicas[1].sequences", [](Plan& p) { p.stages[0].replicas[1].sequences = 0; }},
                      Break{"stages[0].replicas[1].sequences", [](Plan& p) { p.stages[0].replicas[1].sequences = -6; }},
                      Break{"stages[0].replicas[0].quanta", [](Plan& p) { p.stages[0].replicas[0].quanta = 0; }},
                      Break{"stages[0].replicas[0].quanta",
                            [](Plan& p) { p.stages[0].replicas[0].quanta = std::numeric_limits<int>::max(); }},
                      Break{"stages[1].replicas[0].tensor_parallel", [](Plan& p) { p.stages[1].replicas[0].tensor_parallel = 0; }},
                      Break{"stages[1].replicas[0].tensor_parallel", [](Plan& p) { p.stages[1].replicas[0].tensor_parallel = 9; }},
                      Break{"stages[1].replicas[0].devices", [](Plan& p) { p.stages[1].replicas[0].tensor_parallel = 1; }},
                      Break{"stages[1].replicas[0].devices", [](Plan& p) { p.stages[1].replicas[0].devices.pop_back(); }},
                      Break{"stages[0].replicas[1].devices", [](Plan& p) { p.stages[0].replicas[1].devices.clear(); }},
                      Break{"stages[1].replicas[0].devices[1]", [](Plan& p) { p.stages[1].replicas[0].devices[1] = Rank{0}; }},
                      Break{"stages[1].replicas[0].devices[0]", [](Plan& p) { p.stages[1].replicas[0].devices[0] = Rank{4}; }},
                      Break{"stages[0].replicas[0].devices[0]", [](Plan& p) { p.stages[0].replicas[0].devices[0] = Rank{}; }}));

TEST(Validate, ASinglyBrokenPlanHasOneProblemPerConsequence) {
  Plan plan = good();
  plan.stages[1].replicas[0].devices[1] = Rank{0};
  EXPECT_EQ(validate(plan).size(), 1u);
}

TEST(Validate, ADegreeAboveTheHeadsOfKeysIsRefused) {
  Plan plan = even_plan(model::built_in("llama-tiny"), 64, 16, Precision::fp32, 1, 2, 3, 1);
  EXPECT_TRUE(validate(plan).empty());
  plan.stages[1].replicas[0].tensor_parallel = 4;
  plan.stages[1].replicas[0].devices.push_back(Rank{6});
  const auto problems = validate(plan);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].where, "stages[1].replicas[0].tensor_parallel");
  EXPECT_EQ(problems[0].what, "is 4, expected 1 to 3, the number of key and value heads");
}

TEST(RequireValid, NamesSourceAndPlace) {
  Plan plan = good();
  plan.stages[0].replicas[0].quanta = 0;
  const std::string message = tests::refusal([&] { require_valid(plan, "my.json"); });
  EXPECT_TRUE(message.starts_with("my.json: stages[0].replicas[0].quanta: ")) << message;
  EXPECT_NO_THROW(require_valid(good(), "my.json"));
}

/// Four stages on two devices of one replica each.
Plan interleaved() {
  Plan plan = even_plan(model::built_in("gpt2-mini"), 64, 16, Precision::fp32, 1, 4, 1, 2);
  plan.schedule = ScheduleKind::interleaved;
  plan.chunks = 2;
  for (std::size_t s = 0; s < 4; ++s) plan.stages[s].replicas[0].devices = {Rank{static_cast<int>(s % 2)}};
  return plan;
}

void expect_problem(const Plan& plan, const std::string& where, const std::string& what) {
  const auto problems = validate(plan);
  EXPECT_TRUE(
      std::ranges::any_of(problems, [&](const PlanProblem& p) { return p.where == where && p.what.find(what) != std::string::npos; }))
      << where << ": " << (problems.empty() ? "nothing found" : problems.front().what);
}

TEST(Validate, LetsADeviceHoldSeveralStages) {
  Plan plan = interleaved();
  EXPECT_TRUE(validate(plan).empty()) << validate(plan).front().what;
  EXPECT_EQ(own_stages(plan), 2);
  EXPECT_EQ(rank_count(plan), 2);
  EXPECT_EQ(place_of(plan, Rank{1}), (RankCoordinates{1, 0, 0}));
  plan.stages[3].replicas[0].devices = {Rank{0}};
  expect_problem(plan, "stages[3].replicas", "same devices");
  plan = interleaved();
  plan.chunks = 3;
  expect_problem(plan, "chunks", "a divisor of the number of stages, 4");
  plan = interleaved();
  plan.schedule = ScheduleKind::one_f_one_b;
  expect_problem(plan, "chunks", "1 unless the schedule is interleaved");
}

TEST(Validate, AcceptsRandomPlans) {
  std::mt19937 random{3};
  for (int i = 0; i < 300; ++i)
    for (const PlanProblem& problem : validate(testing::random_plan(random))) FAIL() << problem.where << ": " << problem.what;
}

TEST(Spelling, RoundTripsAndRefuses) {
  for (const auto r : {Recompute::none, Recompute::selective, Recompute::full}) EXPECT_EQ(parse_recompute(to_string(r)), r);
  for (const auto s : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved})
    EXPECT_EQ(parse_schedule(to_string(s)), s);
  EXPECT_EQ(to_string(ScheduleKind::one_f_one_b), "1f1b");
  EXPECT_THROW(parse_schedule("1F1B"), Error);
  EXPECT_THROW(parse_recompute(""), Error);
}

TEST(Summary, IsOneLine) {
  EXPECT_EQ(summary(good()), "2 stages: [0,4) 1x tp1 mb4 + 1x tp1 mb2, [4,6) 1x tp2 mb8 recompute full | 1f1b | batch 16 = 8 x 2");
  Plan plan = good();
  plan.stages[0].replicas[0].device_type = "A100-40";
  EXPECT_NE(summary(plan).find("tp1 mb4 A100-40"), std::string::npos);
  plan = good();
  auto& few = plan.stages[0].replicas[0];
  few.quanta = few.sequences / plan.quantum + 1;
  EXPECT_NE(summary(plan).find(text("1x tp1 mb", few.sequences, " ")), std::string::npos) << "more than it has: " << summary(plan);
}

}  // namespace
}  // namespace flotilla::plan::validate_test
