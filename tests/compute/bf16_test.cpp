#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "compute/harness.hpp"

namespace flotilla::compute::test {
namespace {

/// bf16 keeps 8 significant bits.
constexpr double unit_roundoff = 0x1p-9;

double rounded(double v) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
  return static_cast<double>(std::bit_cast<float>((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u));
}

/// Activations are rounded about 12 times in a block and as often again on the way back, so 2 blocks and the ends see about 60 roundings;
/// were all errors to add up in one direction, relative errors would stay below 60 u.
constexpr double roundings = 60;

void expect_close_to_fp32(Case c) {
  Values parameters = random_parameters(c.model, 31);
  for (auto& [name, values] : parameters)
    for (double& v : values) v = rounded(v);
  const auto tokens = random_tokens(c.model, c.sequences(), c.length, 32);
  const Outcome exact = run(c, parameters, tokens);
  c.precision = Precision::bf16;
  const Outcome bf16 = run(c, parameters, tokens);
  EXPECT_NEAR(bf16.loss, exact.loss, 4 * unit_roundoff * exact.loss);
  EXPECT_NE(bf16.loss, exact.loss);
  double largest = 0;
  for (const auto& [name, values] : exact.gradients) largest = std::max(largest, norm(values));
  for (const auto& [name, values] : exact.gradients)
    EXPECT_LT(relative_difference(bf16.gradients.at(name), values, 0.05 * largest), roundings * unit_roundoff) << name;
}

TEST(Bf16, PreNormGelu) { expect_close_to_fp32({.model = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false)}); }

TEST(Bf16, PostNormReluProjected) {
  expect_close_to_fp32({.model = uneven_model(model::NormPlacement::post, model::Activation::relu, true)});
}

TEST(Bf16, DropoutAndTensorParallelism) {
  Case c{.model = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, true)};
  c.model.dropout = c.model.attention_dropout = 0.2;
  c.tensor_parallel = 3;
  c.microbatches = {2, 1};
  expect_close_to_fp32(c);
}

TEST(Bf16, GptNeo) { expect_close_to_fp32({.model = uneven_gpt_neo()}); }

TEST(Bf16, Llama) { expect_close_to_fp32({.model = uneven_llama(false), .tensor_parallel = 3}); }

TEST(Bf16, WindowOverBlocksOfQueries) {
  Case c{.model = uneven_llama(true)};
  c.model.windows = {20, 0};
  c.length = 140;
  c.threads = 2;
  c.microbatches = {2};
  expect_close_to_fp32(c);
}

TEST(Bf16, MoreThanOneBlockOfQueries) {
  Case c{.model = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false)};
  c.length = 140;
  c.threads = 2;
  c.microbatches = {2};
  expect_close_to_fp32(c);
}

}  // namespace
}  // namespace flotilla::compute::test
