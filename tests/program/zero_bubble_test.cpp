// Backward passes in two halves: what runs when, what stays in memory, and that nothing else changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "flotilla/base/text.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::program::zero_bubble_test {
namespace {

using model::Operation;
using plan::ScheduleKind;

/// Stages of two blocks; the first with the embedding, the last with the head.
plan::Plan piped(const std::string& name, int stages, int microbatches, ScheduleKind schedule, int tensor = 1) {
  auto model = model::built_in(name);
  model.blocks = 2 * stages;
  if (!model.windows.empty()) model.windows.resize(2);
  std::vector<int> cuts{0};
  for (int s = 1; s < stages; ++s) cuts.push_back(1 + 2 * s);
  cuts.push_back(model.layers());
  return plan::even_plan(model, 16, microbatches, Precision::fp32, 1, stages, tensor, 1, schedule, cuts);
}

const RankClass& class_of(const Program& program, int stage) { return *std::ranges::find(program.classes, stage, &RankClass::stage); }

int rank_of(const Program& program, int stage) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    if (program.classes[static_cast<std::size_t>(program.ranks[r].rank_class)].stage == stage) return static_cast<int>(r);
  return -1;
}

/// Per microbatch the position of a instruction's run in its rank's list.
std::map<int, int> positions(const Program& program, int rank, const std::string& name) {
  std::map<int, int> found;
  const auto& instructions =
      program.classes[static_cast<std::size_t>(program.ranks[static_cast<std::size_t>(rank)].rank_class)].instructions;
  const auto list = expand(program, Rank{rank});
  for (int i = 0; i < static_cast<int>(list.size()); ++i)
    if (const auto& at = list[static_cast<std::size_t>(i)]; instructions[static_cast<std::size_t>(at.instruction)].name == name)
      found[at.microbatch] = i;
  return found;
}

TEST(ZeroBubble, GradientsGoOnBeforeThoseOfWeightsAreMade) {
  for (const int stages : {2, 4})
    for (const int microbatches : {1, 2, 3, 4, 9}) {
      const auto program = lower(piped("gpt2-tiny", stages, microbatches, ScheduleKind::zero_bubble), Runtime{});
      ASSERT_TRUE(validate(program).empty()) << validate(program).front().what;
      EXPECT_EQ(positions(program, 0, "mlp_backward 1").size(), static_cast<std::size_t>(microbatches));  // nobody waits for stage 0
      for (int s = 1; s < stages; ++s) {
        const std::string layer = std::to_string(1 + 2 * s);
        const auto forward = positions(program, s, "mlp_forward " + layer), send = positions(program, s, "send gradient");
        const auto input = positions(program, s, "mlp_backward_input " + layer),
                   weights = positions(program, s, "mlp_backward_weights " + layer);
        ASSERT_EQ(send.size(), static_cast<std::size_t>(microbatches));
        ASSERT_EQ(weights.size(), static_cast<std::size_t>(microbatches));
        EXPECT_TRUE(positions(program, s, "mlp_backward " + layer).empty());
        const int deferred = std::min(s, microbatches - 1);
        for (int m = 0; m < microbatches; ++m) {
          EXPECT_LT(input.at(m), send.at(m));
          EXPECT_LT(send.at(m), weights.at(m));
          if (m + deferred < microbatches) {
            EXPECT_LT(input.at(m + deferred), weights.at(m));  // as many wait as there are stages before
          }
          if (m + deferred + 1 < microbatches) {
            EXPECT_LT(weights.at(m), input.at(m + deferred + 1));
          }
          // Between a microbatch's forward pass and its gradients of weights there are no more than stage 0 holds in 1F1B.
          if (m + stages < microbatches) {
            EXPECT_LT(weights.at(m), forward.at(m + stages));
          }
        }
      }
    }
}

Bytes held(const Program& program, int stage) {
  Bytes sum;
  for (const auto& b : class_of(program, stage).buffers)
    if (b.category == Category::activations) sum += b.copies * b.stride;
  return sum;
}

/// An inner stage holds about what the first of its pipeline holds in 1F1B: what the second of a pipeline that is longer by one holds.
void expect_first_holds_most(const std::string& name, plan::Recompute recompute, bool shares) {
  constexpr int stages = 4, microbatches = 12;
  const auto program = [&](int depth, ScheduleKind schedule) {
    auto plan = piped(name, depth, microbatches, schedule, shares ? 2 : 1);
    plan.sequence_parallel = shares;
    for (auto& stage : plan.stages) stage.recompute = recompute;
    return lower(plan, Runtime{});
  };
  const auto eager = program(stages + 1, ScheduleKind::one_f_one_b), split = program(stages, ScheduleKind::zero_bubble);
  ASSERT_TRUE(validate(split).empty()) << validate(split).front().what;
  // ReLU's blocks keep gradients that others write over the activation's input; those that drop some have a place to drop it in as well.
  const bool relu = split.plan.model.activation == model::Activation::relu;
  const double most = relu ? 1.35 : recompute == plan::Recompute::selective ? 1.07 : 1.05;
  for (int s = 1; s + 1 < stages; ++s)
    EXPECT_LE(static_cast<double>(held(split, s).count), most * static_cast<double>(held(eager, 1).count))
        << name << s << plan::to_string(recompute) << shares;
  EXPECT_GT(held(split, 2), held(program(stages, ScheduleKind::one_f_one_b), 2));
}

TEST(ZeroBubble, NoStageHoldsMoreThanTheFirstOf1F1B) {
  for (const std::string name : {"gpt2-tiny", "llama-tiny", "opt-tiny", "opt-post-tiny"})
    for (const auto recompute : {plan::Recompute::none, plan::Recompute::selective})
      for (const bool shares : {false, true}) expect_first_holds_most(name, recompute, shares);
}

/// Where tokens are shared, inputs' halves gather no inputs; weights' halves gather what they need while the one before is made.
TEST(ZeroBubble, SharedTokensAreGatheredForTheWeightsAheadOfTheirUse) {
  auto plan = piped("gpt2-tiny", 3, 6, ScheduleKind::zero_bubble, 2);
  plan.sequence_parallel = true;
  const auto program = lower(plan, Runtime{});
  ASSERT_TRUE(validate(program).empty()) << validate(program).front().what;
  for (int s = 1; s < 3; ++s) {
    const int rank = rank_of(program, s);
    for (const int layer : {1 + 2 * s, 2 + 2 * s}) {
      const auto at = [&](const std::string& what) {
        return positions(program, rank, text(what, " ", layer, what.starts_with("gather") ? " backward" : ""));
      };
      const auto input = at("attention_backward_input"), mlp = at("mlp_backward_weights"), attention = at("attention_backward_weights");
      const auto gradient = at("gather partial ahead"), rows = at("gather gathered rows ahead");
      ASSERT_EQ(rows.size(), 6u);
      for (int m = 0; m < 6; ++m) {
        EXPECT_LT(input.at(m), gradient.at(m));
        EXPECT_LT(rows.at(m), mlp.at(m));  // for attention's, beside the other ones
        EXPECT_LT(mlp.at(m), attention.at(m));
      }
    }
    for (const auto& instruction : class_of(program, s).instructions) {
      const auto* layer = instruction.as<LayerOperation>();
      if (layer == nullptr) continue;
      if (layer->operation == Operation::mlp_begin_backward || layer->operation == Operation::attention_begin_backward) {
        EXPECT_EQ(instruction.access(Role::gathered), nullptr) << instruction.name;
      }
    }
  }
}

TEST(ZeroBubble, RecomputedStagesHoldOneMicrobatchMoreAtMost) {
  auto plan = piped("gpt2-tiny", 4, 12, ScheduleKind::zero_bubble);
  for (auto& stage : plan.stages) stage.recompute = plan::Recompute::full;
  const auto split = lower(plan, Runtime{});
  ASSERT_TRUE(validate(split).empty()) << validate(split).front().what;
  plan.schedule = ScheduleKind::one_f_one_b;
  const auto eager = lower(plan, Runtime{});
  for (int s = 1; s < 4; ++s) {
    const auto& shape = split.classes[static_cast<std::size_t>(s)].shape;
    const Bytes block = model::block_layout(plan.model, shape).total + model::kept_layout(plan.model, shape).total;
    EXPECT_LE(held(split, s), held(eager, s) + 2 * block + Bytes{256}) << s;
  }
}

}  // namespace
}  // namespace flotilla::program::zero_bubble_test
