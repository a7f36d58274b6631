// What lowering makes of a plan whose model has adapters: gradients, sums and moments of them alone, in any layout.
#include <gtest/gtest.h>

#include "flotilla/model/adapters.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/program/program.hpp"
#include "program/random_lora.hpp"
#include "program/random_plan.hpp"

namespace flotilla::program::lora_test {
namespace {

std::int64_t bytes_of(const RankClass& c, Category category) {
  std::int64_t sum = 0;
  for (const auto& buffer : c.buffers)
    if (buffer.category == category) sum += buffer.size.count * buffer.copies;
  return sum;
}

/// Sums over the tensor-parallel group of what its members hold whole.
std::vector<const Collective*> sums_over_members(const RankClass& c) {
  std::vector<const Collective*> sums;
  for (const auto& instruction : c.instructions)
    if (instruction.name.starts_with("sum over members")) sums.push_back(instruction.as<Collective>());
  return sums;
}

TEST(Lora, AnyPlanIsProven) {
  std::mt19937 random{71};
  for (int trial = 0; trial < 150; ++trial) {
    auto plan = trial % 2 == 0 ? tests::any_plan(random) : tests::random_plan(random);
    if (trial % 3 == 0) plan = tests::in_chunks(plan, random);
    plan.shard_optimizer = tests::between(random, 0, 1) == 1;
    plan.model.lora = tests::any_lora(plan.model, random);
    if (tests::between(random, 0, 3) == 0) plan.model.frozen = {"block.0.*.lora_A"};
    Runtime runtime;
    runtime.placement = tests::any_placement(random, plan::rank_count(plan));
    const auto violations = validate(lower(plan, runtime));
    ASSERT_TRUE(violations.empty()) << violations.front().what << "\n" << plan::summary(plan);
    ASSERT_TRUE(validate(lower_evaluation(plan, runtime, plan.global_batch)).empty());
  }
}

/// To the byte: the model's own parameters, those of adapters, and gradients and moments of adapters alone.
TEST(Lora, StateIsOfTheAdapters) {
  std::mt19937 random{72};
  for (int trial = 0; trial < 60; ++trial) {
    auto plan = tests::any_plan(random);
    plan.model.lora = tests::any_lora(plan.model, random);
    const auto program = lower(plan, Runtime{});
    for (const auto& c : program.classes) {
      std::int64_t adapters = 0, all = 0;
      for (const auto& part : c.parts)
        for (const auto& slot : part.slots) {
          const std::int64_t padded = (slot.elements + 15) / 16 * 16;
          all += padded;
          if (model::is_adapter(program.tensors[static_cast<std::size_t>(slot.tensor)])) adapters += padded;
        }
      EXPECT_EQ(bytes_of(c, Category::gradients), 4 * adapters);
      EXPECT_EQ(bytes_of(c, Category::optimizer), 8 * adapters);
      EXPECT_EQ(bytes_of(c, Category::parameters), all * (plan.precision == Precision::fp32 ? 4 : 6));
    }
  }
}

/// The halves that every member holds whole stand first in their part, and one sum over the group covers them and no more.
TEST(Lora, MembersSumTheHalvesThatAreWhole) {
  auto plan = plan::even_plan(model::built_in("llama-tiny"), 16, 4, Precision::fp32, 1, 1, 3, 1);
  plan.model.lora = {4, 8, {model::linears.begin(), model::linears.end()}, 3, 2};
  for (const bool shares : {false, true}) {
    plan.sequence_parallel = shares;
    const auto program = lower(plan, Runtime{});
    const auto& c = program.classes.front();
    const auto sums = sums_over_members(c);
    ASSERT_EQ(sums.size(), static_cast<std::size_t>(plan.model.blocks));
    const std::int64_t d = plan.model.hidden, elements = (4 * 3 + 4 + 4 * 2 + 4) * d;
    for (const auto* sum : sums) EXPECT_EQ(sum->size.fixed, Bytes{4 * elements});
  }
  plan = plan::even_plan(plan.model, 16, 4, Precision::fp32, 3, 1, 1, 1);
  EXPECT_TRUE(sums_over_members(lower(plan, Runtime{}).classes.front()).empty());
}

/// The workspace has room for the low-rank inputs and their gradients, and nothing else grows but tensors and what sums them.
TEST(Lora, WorkspaceGrowsByLowRankInputs) {
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 16, 4, Precision::fp32, 1, 1, 1, 1);
  plan.model.lora = {4, 8, {model::linears.begin(), model::linears.end()}, 1, 1};
  const auto workspace_of = [](const Program& program) {
    for (const auto& buffer : program.classes.front().buffers)
      if (buffer.name == "workspace") return buffer.size;
    return Bytes{};
  };
  const auto with = lower(plan, Runtime{}),
             without = lower(plan::even_plan(plan.model.fully_trained(), 16, 4, Precision::fp32, 1, 1, 1, 1), Runtime{});
  const auto shape = with.classes.front().shape;
  Bytes most;
  for (int i = 0; i < model::all_operation_count; ++i)
    most = std::max(most, model::workspace(plan.model, shape, static_cast<model::Operation>(i), Runtime{}.threads));
  EXPECT_EQ(workspace_of(with), most);
  EXPECT_GT(most, workspace_of(without));
  for (const auto category : {Category::activations, Category::communication})
    EXPECT_EQ(bytes_of(with.classes.front(), category), bytes_of(without.classes.front(), category));
}

/// A split backward pass has weights' halves where there are adapters.
TEST(Lora, SplitPassesMakeAdaptersGradients) {
  auto plan = plan::even_plan(model::built_in("gpt2-mini"), 16, 6, Precision::fp32, 1, 2, 1, 1);
  plan.schedule = plan::ScheduleKind::zero_bubble;
  plan.model.lora = {2, 2, {model::Linear::qkv}, 1, 1};
  const auto program = lower(plan, Runtime{});
  for (const auto& c : program.classes)
    for (const auto& instruction : c.instructions) {
      const auto* layer = instruction.as<LayerOperation>();
      if (layer == nullptr) continue;
      EXPECT_NE(layer->operation, model::Operation::mlp_backward_weights);
      EXPECT_NE(layer->operation, model::Operation::head_backward_weights);
      EXPECT_TRUE(layer->operation != model::Operation::attention_backward_weights || layer->weights_frozen);
    }
}

}  // namespace
}  // namespace flotilla::program::lora_test
