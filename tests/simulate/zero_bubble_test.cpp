// What a zero-bubble schedule is worth, against the arithmetic of its authors.
#include <gtest/gtest.h>

#include "cluster_fixture.hpp"
#include "fake_cost.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "machine/interpret.hpp"

namespace flotilla::zero_bubble_test {
namespace {

using model::Operation;
using plan::ScheduleKind;
using simulate::Activity;

constexpr double next_to_nothing = 1e-12;

/// Blocks alone take time: forward passes 2, halves of backward passes 2 each.
double block_seconds(const program::Instruction& instruction, int) {
  const auto* layer = instruction.as<program::LayerOperation>();
  if (layer == nullptr) return next_to_nothing;
  switch (layer->operation) {
    case Operation::attention_forward:
    case Operation::mlp_forward:
    case Operation::mlp_backward_input:
    case Operation::mlp_backward_weights:
    case Operation::attention_backward_input:
    case Operation::attention_backward_weights: return 1;
    case Operation::mlp_backward:
    case Operation::attention_backward: return 2;
    default: return next_to_nothing;
  }
}

simulate::Forecast forecast(int stages, int microbatches, ScheduleKind schedule, plan::Recompute recompute = plan::Recompute::none,
                            bool shares = false) {
  const auto model = model::built_in("gpt2-mini");
  std::vector<int> cuts{0};
  for (int s = 1; s < stages; ++s) cuts.push_back(1 + s * model.blocks / stages);
  cuts.push_back(model.layers());
  auto plan = plan::even_plan(model, 16, microbatches, Precision::fp32, 1, stages, shares ? 2 : 1, 1, schedule, cuts);
  plan.sequence_parallel = shares;
  for (auto& stage : plan.stages) stage.recompute = recompute;
  fixture::FakeCost cost;
  cost.compute_seconds = block_seconds;
  cost.message_seconds = cost.collective_seconds = next_to_nothing;
  return interpret(program::lower(plan, {}), cost);
}

/// Qi et al. 2023, table 2: 1F1B waits (P - 1) (F + B + W), ZB-H1 (P - 1) (F + B - W).
TEST(ZeroBubble, WaitsAThirdOf1F1BWhereForwardAndHalvesAreEqual) {
  const int blocks = model::built_in("gpt2-mini").blocks;
  for (const int stages : {2, 4})
    for (const int microbatches : {stages, 8, 13}) {
      const double f = 2.0 * blocks / stages, b = f, w = f;
      const auto eager = forecast(stages, microbatches, ScheduleKind::one_f_one_b);
      const auto split = forecast(stages, microbatches, ScheduleKind::zero_bubble);
      EXPECT_NEAR(eager.iteration.value, microbatches * (f + b + w) + (stages - 1) * (f + b + w), 1e-6);
      EXPECT_NEAR(split.iteration.value, microbatches * (f + b + w) + (stages - 1) * (f + b - w), 1e-6) << stages << ", " << microbatches;
      EXPECT_NEAR(split.breakdown[Activity::bubble] / eager.breakdown[Activity::bubble], 1.0 / 3, 1e-6);
      const auto shared = forecast(stages, microbatches, ScheduleKind::zero_bubble, plan::Recompute::none, true);
      EXPECT_NEAR(shared.iteration.value, split.iteration.value, 1e-6) << stages << ", " << microbatches;
    }
}

/// Computing again, stages make both halves together: only the way of the gradients gets shorter.
TEST(ZeroBubble, WithRecomputationTheGradientsStillGoFirst) {
  const auto eager = forecast(4, 8, ScheduleKind::one_f_one_b, plan::Recompute::full);
  const auto split = forecast(4, 8, ScheduleKind::zero_bubble, plan::Recompute::full);
  EXPECT_LT(split.iteration.value, eager.iteration.value - 1);
  EXPECT_LT(split.breakdown[Activity::bubble].value, 0.8 * eager.breakdown[Activity::bubble].value);
}

/// Dropping what is cheap to compute again, stages have room for some of the weights' halves.
TEST(ZeroBubble, WhereBlocksDropSomeFewerAreDeferred) {
  for (const bool shares : {false, true}) {
    const auto eager = forecast(4, 8, ScheduleKind::one_f_one_b, plan::Recompute::selective, shares);
    const auto split = forecast(4, 8, ScheduleKind::zero_bubble, plan::Recompute::selective, shares);
    const auto all = forecast(4, 8, ScheduleKind::zero_bubble, plan::Recompute::none, shares);
    EXPECT_LT(split.iteration.value, eager.iteration.value - 1);
    EXPECT_LT(split.breakdown[Activity::bubble].value, 0.6 * eager.breakdown[Activity::bubble].value);
    EXPECT_GE(split.iteration.value, all.iteration.value - 1e-6);
  }
}

TEST(ZeroBubble, AMeasuredWholeIsSharedByFlopsUnlessItsHalvesWereMeasured) {
  auto profile = fixture::uniform_cluster(1, 1);
  const auto model = model::built_in("llama-tiny");
  const model::LayerShape shape{2, 16};
  fixture::measure(profile, model, 16, Precision::fp32, {1}, {2});
  for (int o = static_cast<int>(Operation::mlp_backward_input); o < model::all_operation_count; o += 2) {
    const auto input = static_cast<Operation>(o), weights = static_cast<Operation>(o + 1), whole = *model::whole_of(input);
    const simulate::ProfileCost cost{profile};
    const double all = cost.operation(model, "slow", whole, shape).time.value;
    const double half = cost.operation(model, "slow", weights, shape).time.value;
    EXPECT_NEAR(cost.operation(model, "slow", input, shape).time.value + half, all, 1e-12 * all);
    EXPECT_NEAR(half / all, model::flops(model, shape, weights) / model::flops(model, shape, whole), 1e-12);
    profile.operation_times.push_back({"slow", std::string{model::to_string(input)}, 1, 2, 16, Precision::fp32, {0.75}, 0});
    EXPECT_EQ(simulate::ProfileCost{profile}.operation(model, "slow", input, shape).time.value, 0.75);
  }
}

}  // namespace
}  // namespace flotilla::zero_bubble_test
