// Backward passes in two halves: what runs when, what stays in memory, and that nothing else changes.
#include <gtest/gtest.h>

#include <map>

#include "flotilla/program/program.hpp"

namespace flotilla::program {
namespace {

using model::Operation;
using plan::ScheduleKind;

/// Stages of two blocks; the first with the embedding, the last with the head.
plan::Plan piped(const std::string& name, int stages, int microbatches, ScheduleKind schedule) {
  auto model = model::built_in(name);
  model.blocks = 2 * stages;
  if (!model.windows.empty()) model.windows.resize(2);
  std::vector<int> cuts{0};
  for (int s = 1; s < stages; ++s) cuts.push_back(1 + 2 * s);
  cuts.push_back(model.layers());
  return plan::even_plan(model, 16, microbatches, Precision::fp32, 1, stages, 1, 1, schedule, cuts);
}

/// Per microbatch the position of a site's run in its rank's list.
std::map<int, int> positions(const Program& program, int rank, const std::string& name) {
  std::map<int, int> found;
  const auto& sites = program.classes[static_cast<std::size_t>(program.ranks[static_cast<std::size_t>(rank)].rank_class)].sites;
  const auto list = expand(program, Rank{rank});
  for (int i = 0; i < static_cast<int>(list.size()); ++i)
    if (const auto& at = list[static_cast<std::size_t>(i)]; sites[static_cast<std::size_t>(at.site)].name == name) found[at.microbatch] = i;
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

Bytes held(const Program& program, int rank) {
  Bytes sum;
  for (const auto& b : program.classes[static_cast<std::size_t>(program.ranks[static_cast<std::size_t>(rank)].rank_class)].buffers)
    if (b.category == Category::activations) sum += b.copies * b.stride;
  return sum;
}

/// An inner stage holds about what the first of its pipeline holds in 1F1B: what the second of a pipeline that is longer by one holds.
TEST(ZeroBubble, NoStageHoldsMoreThanTheFirstOf1F1B) {
  for (const std::string name : {"gpt2-tiny", "llama-tiny", "opt-tiny", "opt-post-tiny"}) {
    constexpr int stages = 4, microbatches = 12;
    const auto eager = lower(piped(name, stages + 1, microbatches, ScheduleKind::one_f_one_b), Runtime{});
    const auto split = lower(piped(name, stages, microbatches, ScheduleKind::zero_bubble), Runtime{});
    const bool relu =
        split.plan.model.activation == model::Activation::relu;  // keeps gradients that others write over the activation's input
    for (int s = 1; s + 1 < stages; ++s)
      EXPECT_LE(static_cast<double>(held(split, s).count), (relu ? 1.35 : 1.05) * static_cast<double>(held(eager, 1).count)) << name << s;
    EXPECT_GT(held(split, 2), held(lower(piped(name, stages, microbatches, ScheduleKind::one_f_one_b), Runtime{}), 2));
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
}  // namespace flotilla::program
