#include <gtest/gtest.h>

#include "compute/harness.hpp"
#include "support/same_loss.hpp"

/// What must not change the result: tensor parallelism, microbatches, threads, repetition.
namespace flotilla::compute::test {
namespace {

using model::Activation;
using model::NormPlacement;

Case base_case(const model::Config& model) {
  Case c;
  c.model = model;
  c.model.dropout = 0.2;
  c.model.attention_dropout = 0.3;
  c.microbatches = {4};
  c.length = 9;
  return c;
}

std::vector<Case> base_cases() {
  return {base_case(uneven_model(NormPlacement::pre, Activation::gelu_tanh, false)),
          base_case(uneven_model(NormPlacement::post, Activation::relu, true)),
          base_case(uneven_model(NormPlacement::pre, Activation::relu, true)),
          base_case(uneven_gpt_neo()),
          base_case(uneven_llama(false)),
          base_case(uneven_llama(true)),
          base_case(uneven_qwen3()),
          base_case(uneven_gpt_neox()),
          base_case(uneven_bloom()),
          base_case(uneven_gemma2()),
          base_case(uneven_gemma3()),
          base_case(adapted(uneven_model(NormPlacement::post, Activation::relu, false), 3, 1, 1)),
          base_case(adapted(uneven_llama(false), 2, 3, 2))};
}

Outcome run_case(const Case& c) { return run(c, random_parameters(c.model, 21), random_tokens(c.model, c.sequences(), c.length, 22)); }

TEST(Invariance, TensorParallelShardsSumToTheWhole) {
  for (Case c : base_cases()) {
    const Outcome whole = run_case(c);
    for (int degree : {2, 3, 4, 6}) {
      if (degree > model::largest_tensor_parallel(c.model)) continue;
      c.tensor_parallel = degree;
      const Outcome cut = run_case(c);
      EXPECT_NEAR(cut.loss, whole.loss, 1e-6 * whole.loss) << degree;
      EXPECT_LT(worst_difference(cut.gradients, whole.gradients), 1e-5) << degree;
    }
  }
}

TEST(Invariance, MicrobatchesOfAnySizeGiveTheSameSums) {
  for (Case c : base_cases()) {
    const Outcome whole = run_case(c);
    for (const std::vector<int>& split : {std::vector{2, 2}, std::vector{3, 1}, std::vector{1, 1, 1, 1}}) {
      c.microbatches = split;
      const Outcome cut = run_case(c);
      EXPECT_NEAR(cut.loss, whole.loss, 1e-6 * whole.loss);
      EXPECT_LT(worst_difference(cut.gradients, whole.gradients), 1e-5);
    }
  }
}

TEST(Invariance, ThreadsOnlyChangeTheOrderOfSums) {
  for (Case c : base_cases()) {
    c.threads = 1;
    const Outcome one = run_case(c);
    c.threads = 3;
    const Outcome three = run_case(c);
    EXPECT_NEAR(one.loss, three.loss, 1e-6 * one.loss);
    EXPECT_LT(worst_difference(three.gradients, one.gradients), 1e-5);
  }
}

TEST(Invariance, RepetitionGivesTheSameBits) {
  for (Case c : base_cases())
    for (Precision precision : {Precision::fp32, Precision::bf16}) {
      c.precision = precision;
      c.threads = 2;
      c.tensor_parallel = 2;
      const Outcome first = run_case(c), second = run_case(c);
      EXPECT_EQ(first.loss, second.loss);
      EXPECT_EQ(first.gradients, second.gradients);
    }
}

/// The kinds of block whose halves keep different things: with and without dropout, cut or not.
TEST(Invariance, HalvesOfABackwardPassGiveTheSameBits) {
  for (Case c : base_cases())
    for (const bool training : {true, false})
      for (Precision precision : {Precision::fp32, Precision::bf16}) {
        c.precision = precision;
        c.training = training;
        c.tensor_parallel = training ? 2 : 1;
        c.split = false;
        const Outcome whole = run_case(c);
        c.split = true;
        const Outcome halves = run_case(c);
        EXPECT_EQ(whole.loss, halves.loss);
        EXPECT_TRUE(whole.gradients == halves.gradients) << worst_difference(halves.gradients, whole.gradients);
      }
}

/// And where blocks drop what is cheap to compute again, or members hold pieces of the tokens, of unlike size and some of them empty.
TEST(Invariance, HalvesOfWhatIsDroppedOrSharedGiveTheSameBits) {
  for (Case c : base_cases())
    for (const bool drops : {false, true})
      for (const bool shares : {false, true}) {
        if (!drops && !shares) continue;
        c.tensor_parallel = shares ? 3 : 2;
        c.microbatches = {3, 1};
        c.length = drops ? 9 : 2;
        c.precision = drops ? Precision::fp32 : Precision::bf16;
        c.drops = drops;
        c.shares = shares;
        c.split = false;
        const Outcome whole = run_case(c);
        c.split = true;
        const Outcome halves = run_case(c);
        EXPECT_EQ(whole.loss, halves.loss);
        EXPECT_TRUE(whole.gradients == halves.gradients) << worst_difference(halves.gradients, whole.gradients);
      }
}

TEST(Invariance, WhatIsDroppedAndComputedAgainHasTheSameBits) {
  for (Case c : base_cases())
    for (Precision precision : {Precision::fp32, Precision::bf16}) {
      c.precision = precision;
      c.threads = 2;
      c.tensor_parallel = 2;
      c.microbatches = {3, 1};
      c.drops = false;
      const Outcome kept = run_case(c);
      c.drops = true;
      const Outcome again = run_case(c);
      EXPECT_EQ(again.loss, kept.loss);
      EXPECT_EQ(again.gradients, kept.gradients);
    }
}

/// In pieces of unlike size, some of them empty: the loss keeps its bits, gradients of what all hold whole are sums in another order.
TEST(Invariance, SharedTokensChangeOnlyTheOrderOfSums) {
  for (Case c : base_cases())
    for (int degree : {2, 3}) {
      c.tensor_parallel = degree;
      c.microbatches = {3, 1};
      c.drops = degree == 3;
      c.threads = degree - 1;
      c.shares = false;
      const Outcome whole = run_case(c);
      c.shares = true;
      const Outcome shared = run_case(c);
      tests::expect_same_loss(shared.loss, whole.loss);
      EXPECT_LT(worst_difference(shared.gradients, whole.gradients), 1e-6);
    }
  Case few = base_cases()[1];
  few.length = 1;
  few.microbatches = {1, 1, 2};
  few.tensor_parallel = 3;
  const Outcome whole = run_case(few);
  few.shares = true;
  const Outcome shared = run_case(few);
  tests::expect_same_loss(shared.loss, whole.loss);
  EXPECT_LT(worst_difference(shared.gradients, whole.gradients), 1e-6);
}

TEST(Invariance, SeedAndStepChangeTheMasks) {
  Case c = base_cases().front();
  const Outcome first = run_case(c);
  c.step += 1;
  EXPECT_NE(run_case(c).loss, first.loss);
  c.step -= 1;
  c.seed += 1;
  EXPECT_NE(run_case(c).loss, first.loss);
}

}  // namespace
}  // namespace flotilla::compute::test
