#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "compute/harness.hpp"
#include "flotilla/base/half.hpp"

namespace flotilla::compute::test {
namespace {

/// bf16 keeps 8 significant bits, fp16 11.
double unit_roundoff(Precision precision) { return precision == Precision::bf16 ? 0x1p-9 : 0x1p-12; }

double rounded(double v, Precision precision) {
  if (precision == Precision::fp16) return static_cast<double>(half_to_float(half_from_float(static_cast<float>(v))));
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
  return static_cast<double>(std::bit_cast<float>((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u));
}

/// Activations are rounded about 12 times in a block and as often again on the way back, so 2 blocks and the ends see about 60 roundings;
/// were all errors to add up in one direction, relative errors would stay below 60 u.
constexpr double roundings = 60;
/// On tensor cores a block rounds probabilities forward and again backward, and the gradients of scores: 3 more in each of 2 blocks.
constexpr double roundings_on_tensor_cores = roundings + 6;

/// ReLU turns on or off the 0.8 b of its units that lie within an error b of zero (0.8 is the normal density at 0 times two), and a part p
/// of the terms changes a gradient by sqrt(p). In bf16 it keeps within the plain bound all the same.
double gradient_bound(const model::Config& model, Precision precision, double count) {
  const double bound = count * unit_roundoff(precision);
  return model.activation == model::Activation::relu && precision == Precision::fp16 ? std::sqrt(0.8 * bound) : bound;
}

void expect_close(const Outcome& rounded, const Outcome& exact, double u, double gradients) {
  EXPECT_NEAR(rounded.loss, exact.loss, 4 * u * exact.loss);
  EXPECT_NE(rounded.loss, exact.loss);
  double largest = 0;
  for (const auto& [name, values] : exact.gradients) largest = std::max(largest, norm(values));
  for (const auto& [name, values] : exact.gradients)
    EXPECT_LT(relative_difference(rounded.gradients.at(name), values, 0.05 * largest), gradients) << name;
}

void expect_close_to_fp32(Case c, Precision precision, double count = roundings) {
  Values parameters = random_parameters(c.model, 31);
  for (auto& [name, values] : parameters)
    for (double& v : values) v = rounded(v, precision);
  const auto tokens = random_tokens(c.model, c.sequences(), c.length, 32);
  const Outcome exact = run(c, parameters, tokens);
  c.precision = precision;
  if (precision == Precision::fp16) c.loss_scale = 4096;
  expect_close(run(c, parameters, tokens), exact, unit_roundoff(precision), gradient_bound(c.model, precision, count));
}

/// TF32 has fp16's 11 significant bits. Both operands of a product are rounded: 4 products of a block forward and 8 back, so 24 roundings
/// in each of 2 blocks, and 6 in the head.
void expect_tf32_close_to_fp32(Case c) {
  constexpr double operands = 2 * 24 + 6;
  const Values parameters = random_parameters(c.model, 31);
  const auto tokens = random_tokens(c.model, c.sequences(), c.length, 32);
  const Outcome exact = run(c, parameters, tokens);
  c.tf32 = true;
  const double u = unit_roundoff(Precision::fp16);
  expect_close(run(c, parameters, tokens), exact, u, operands * u);
}

class Half : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Half, testing::Values(Precision::bf16, Precision::fp16),
                         [](const auto& each) { return to_string(each.param); });

TEST_P(Half, PreNormGelu) {
  expect_close_to_fp32(Case{.model = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false)}, GetParam());
}

TEST_P(Half, PostNormReluProjected) {
  expect_close_to_fp32(Case{.model = uneven_model(model::NormPlacement::post, model::Activation::relu, true)}, GetParam());
}

TEST_P(Half, DropoutAndTensorParallelism) {
  Case c{.model = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, true)};
  c.model.dropout = c.model.attention_dropout = 0.2;
  c.tensor_parallel = 3;
  c.microbatches = {2, 1};
  expect_close_to_fp32(c, GetParam());
}

TEST_P(Half, GptNeo) { expect_close_to_fp32(Case{.model = uneven_gpt_neo()}, GetParam()); }

TEST_P(Half, Adapters) { expect_close_to_fp32(Case{.model = adapted(uneven_llama(false), 4, 3, 2), .tensor_parallel = 3}, GetParam()); }

TEST_P(Half, Llama) { expect_close_to_fp32(Case{.model = uneven_llama(false), .tensor_parallel = 3}, GetParam()); }

TEST_P(Half, Qwen3) { expect_close_to_fp32(Case{.model = uneven_qwen3(), .tensor_parallel = 3}, GetParam()); }

TEST_P(Half, GptNeox) { expect_close_to_fp32(Case{.model = uneven_gpt_neox(), .tensor_parallel = 2}, GetParam()); }

TEST_P(Half, Bloom) { expect_close_to_fp32(Case{.model = uneven_bloom(), .tensor_parallel = 3}, GetParam()); }

TEST_P(Half, Gemma2) { expect_close_to_fp32(Case{.model = uneven_gemma2(), .tensor_parallel = 3}, GetParam()); }

TEST_P(Half, Gemma3) { expect_close_to_fp32(Case{.model = uneven_gemma3(), .tensor_parallel = 3}, GetParam()); }

/// Heads of 16: on GPUs their attention is on tensor cores, in more than one block.
TEST_P(Half, HeadsForTensorCores) {
  for (const std::string name : {"gpt2-tiny", "llama-tiny", "bloom-tiny"}) {
    Case c{.model = model::built_in(name)};
    c.model.dropout = c.model.attention_dropout = 0.1;
    c.length = 70;
    c.microbatches = {2};
    expect_close_to_fp32(c, GetParam(), roundings_on_tensor_cores);
  }
}

/// Without dropout of probabilities, which cuDNN's attention cannot share: heads side by side, shared keys, windows
/// (compute_half_test_over_cudnn).
TEST_P(Half, HeadsForCudnn) {
  for (const std::string name : {"gpt2-tiny", "llama-tiny"}) {
    Case c{.model = model::built_in(name)};
    c.model.dropout = c.model.attention_dropout = 0;
    c.model.windows = {20, 0};
    c.length = 40;
    c.microbatches = {2};
    expect_close_to_fp32(c, GetParam(), roundings_on_tensor_cores);
  }
}

TEST_P(Half, WindowOverBlocksOfQueries) {
  Case c{.model = uneven_llama(true)};
  c.model.windows = {20, 0};
  c.length = 140;
  c.threads = 2;
  c.microbatches = {2};
  expect_close_to_fp32(c, GetParam());
}

TEST_P(Half, MoreThanOneBlockOfQueries) {
  Case c{.model = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false)};
  c.length = 140;
  c.threads = 2;
  c.microbatches = {2};
  expect_close_to_fp32(c, GetParam());
}

/// CPUs have no such units: the same test on a stand-in GPU is compute_half_test_on_gpu.
TEST(Tf32, RoundsOperandsOfProductsAndNothingElse) {
  if (const char* device = std::getenv("FLOTILLA_TEST_DEVICE"); !device || std::string_view{device} != "gpu") GTEST_SKIP() << "no GPU";
  expect_tf32_close_to_fp32({.model = uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false)});
  expect_tf32_close_to_fp32({.model = uneven_gpt_neo()});
  expect_tf32_close_to_fp32({.model = uneven_llama(false), .tensor_parallel = 3});
}

}  // namespace
}  // namespace flotilla::compute::test
