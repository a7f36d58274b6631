// What lowering makes of a plan some of whose tensors are frozen: no gradients, sums or moments of them, and no passes below what is
// trained.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/program.hpp"
#include "program/random_plan.hpp"

namespace flotilla::program::frozen_test {
namespace {

/// Patterns that leave something to train.
std::vector<std::string> any_patterns(const model::Config& model, std::mt19937& random) {
  static const std::vector<std::string> patterns{"embedding.*", "block.0.*", "block.*.attention.*", "*.bias", "*norm*", "block.1.feed_*",
                                                 "head.*",      "*.weight"};
  for (;;) {
    auto config = model;
    for (const auto& pattern : patterns)
      if (tests::between(random, 0, 2) == 0) config.frozen.push_back(pattern);
    const auto tensors = model::tensors(config);
    if (!config.frozen.empty() && model::first_trained_layer(config, tensors) < config.layers()) return config.frozen;
  }
}

std::int64_t bytes_of(const RankClass& c, Category category) {
  std::int64_t sum = 0;
  for (const auto& buffer : c.buffers)
    if (buffer.category == category) sum += buffer.size.count * buffer.copies;
  return sum;
}

TEST(Frozen, AnyPlanIsProven) {
  std::mt19937 random{61};
  for (int trial = 0; trial < 150; ++trial) {
    auto plan = trial % 2 == 0 ? tests::any_plan(random) : tests::random_plan(random);
    if (trial % 3 == 0) plan = tests::in_chunks(plan, random);
    plan.shard_optimizer = tests::between(random, 0, 1) == 1;
    plan.model.frozen = any_patterns(plan.model, random);
    Runtime runtime;
    runtime.placement = tests::any_placement(random, plan::rank_count(plan));
    const auto program = lower(plan, runtime);
    const auto violations = validate(program);
    ASSERT_TRUE(violations.empty()) << violations.front().what << "\n" << plan::summary(plan) << " " << plan.model.frozen.front();
    ASSERT_TRUE(validate(lower_evaluation(plan, runtime, plan.global_batch)).empty());
  }
}

/// To the byte: nothing of what is frozen has a gradient or a moment, and all of what is trained has.
TEST(Frozen, GradientsAndMomentsAreOfWhatIsTrained) {
  std::mt19937 random{62};
  for (int trial = 0; trial < 60; ++trial) {
    auto plan = tests::any_plan(random);
    plan.model.frozen = any_patterns(plan.model, random);
    const auto program = lower(plan, Runtime{});
    for (const auto& binding : program.ranks) {
      if (binding.rank_class < 0) continue;
      const auto& c = program.classes[static_cast<std::size_t>(binding.rank_class)];
      std::int64_t trained = 0, all = 0;
      for (const auto& part : c.parts) {
        std::int64_t gradients = 0;
        for (const auto& slot : part.slots) {
          EXPECT_EQ(slot.trained, program.tensors[static_cast<std::size_t>(slot.tensor)].trained);
          if (slot.trained) gradients += (slot.elements + 15) / 16 * 16;
        }
        EXPECT_EQ(part.trained_elements(), gradients);
        EXPECT_EQ(part.gradients >= 0, gradients > 0);
        trained += gradients;
        all += part.elements;
      }
      EXPECT_EQ(bytes_of(c, Category::gradients), 4 * trained);
      EXPECT_EQ(bytes_of(c, Category::optimizer), 8 * trained);
      EXPECT_EQ(bytes_of(c, Category::parameters), all * (plan.precision == Precision::fp32 ? 4 : 6));
    }
  }
}

/// A sharded optimizer keeps the fp32 parameters of frozen tensors whole: nobody gathers them.
TEST(Frozen, ShardsAreOfWhatIsTrained) {
  auto plan = plan::even_plan(model::built_in("llama-tiny"), 16, 4, Precision::bf16, 2, 1, 1, 1);
  plan.shard_optimizer = true;
  plan.model.frozen = {"block.*.attention.*", "embedding.*"};
  const auto program = lower(plan, Runtime{});
  for (const auto& part : program.classes.front().parts) {
    const std::int64_t trained = part.trained_elements();
    EXPECT_EQ(part.shards.empty(), trained == 0) << part.name;
    EXPECT_EQ(part.frozen_parameters >= 0, trained > 0 && trained < part.elements) << part.name;
    for (const auto& shard : part.shards) {
      EXPECT_EQ(shard.summed, trained);
      for (const auto& span : shard.spans) EXPECT_TRUE(part.slots[static_cast<std::size_t>(span.slot)].trained);
    }
  }
}

/// Below the first trained layer nothing goes back, over the boundaries of stages neither.
TEST(Frozen, NoPassesBelowWhatIsTrained) {
  auto plan = plan::even_plan(model::built_in("gpt2-mini"), 16, 8, Precision::fp32, 1, 3, 1, 1);
  plan.model.tied_head = false;
  plan.model.frozen = {"embedding.*", "block.0.*", "block.1.*", "block.2.*"};
  ASSERT_EQ(model::first_trained_layer(plan.model, model::tensors(plan.model)), 4);
  const auto program = lower(plan, Runtime{});
  for (const auto& c : program.classes) {
    const auto& stage = plan.stages[static_cast<std::size_t>(c.stage)];
    std::set<int> back;
    bool sends = false, receives = false;
    for (const auto& instruction : c.instructions) {
      if (!instruction.backward) continue;
      if (const auto* layer = instruction.as<LayerOperation>()) back.insert(layer->layer);
      sends = sends || instruction.sends();
      receives = receives || instruction.receives();
    }
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) EXPECT_EQ(back.contains(layer), layer >= 4) << layer;
    EXPECT_EQ(sends, stage.first_layer > 4);
    EXPECT_EQ(receives, stage.last_layer > 4 && stage.last_layer < plan.model.layers());
  }
}

/// The forecast takes the inputs' half of a pass whose products' weights are frozen.
TEST(Frozen, PassesWithoutWeightsGradientsAreTold) {
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 16, 4, Precision::fp32, 1, 1, 1, 1);
  plan.model.frozen = {"block.1.attention.*", "block.0.feed_forward.up.*"};
  const auto program = lower(plan, Runtime{});
  std::set<std::pair<model::Operation, int>> frozen;
  for (const auto& instruction : program.classes.front().instructions)
    if (const auto* layer = instruction.as<LayerOperation>(); layer != nullptr && layer->weights_frozen)
      frozen.emplace(layer->operation, layer->layer);
  EXPECT_EQ(frozen, (std::set<std::pair<model::Operation, int>>{{model::Operation::attention_backward, 2}}));
}

}  // namespace
}  // namespace flotilla::program::frozen_test
