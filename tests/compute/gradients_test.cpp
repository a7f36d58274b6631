#include <gtest/gtest.h>

#include <cmath>

#include "compute/harness.hpp"
#include "compute/reference_model.hpp"
#include "flotilla/base/philox.hpp"

/// Loss and every gradient against a plain double-precision model and its finite differences.
namespace flotilla::compute::test {
namespace {

struct Kind {
  const char* name;
  model::Config model;
  double dropout;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

Case make_case(const Kind& kind) {
  Case c;
  c.model = kind.model;
  c.model.dropout = kind.dropout;
  c.model.attention_dropout = kind.dropout * 1.5;
  c.microbatches = {2, 1};
  c.length = 7;
  return c;
}

/// d loss / d direction by central differences of the double-precision loss.
double difference(const Case& c, const Values& parameters, const std::vector<std::int32_t>& tokens, const std::string& name,
                  const std::vector<double>& direction) {
  const double h = 1e-5;
  Values moved = parameters;
  const auto loss = [&](double by) {
    for (std::size_t i = 0; i < direction.size(); ++i) moved[name][i] = parameters.at(name)[i] + by * direction[i];
    return reference_loss(c, moved, tokens);
  };
  return (loss(h) - loss(-h)) / (2 * h);
}

class Gradients : public ::testing::TestWithParam<Kind> {};

void expect_gradients(const Case& c, const std::vector<std::int32_t>& tokens) {
  const Values parameters = random_parameters(c.model, 5);
  const Outcome outcome = run(c, parameters, tokens);
  EXPECT_NEAR(outcome.loss, reference_loss(c, parameters, tokens), 2e-6 * outcome.loss);
  double largest = 0;
  for (const auto& [name, gradient] : outcome.gradients) largest = std::max(largest, norm(gradient));
  std::uint64_t stream = 0;
  for (const auto& [name, gradient] : outcome.gradients) {
    for (int sample = 0; sample < 3; ++sample) {
      std::vector<double> direction(gradient.size());
      const Philox random{11, ++stream};
      if (sample == 0)
        for (std::size_t i = 0; i < direction.size(); ++i) direction[i] = static_cast<double>(uniform(random(i)[0])) - 0.5;
      else
        direction[random(0)[0] % direction.size()] = 1;
      double expected = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) expected += gradient[i] * direction[i];
      const double scale = norm(direction) * std::max(norm(gradient), 1e-3 * largest);
      EXPECT_NEAR(difference(c, parameters, tokens, name, direction), expected, 3e-5 * scale) << name << ", sample " << sample;
    }
  }
}

TEST_P(Gradients, MatchFiniteDifferencesOfThePlainModel) {
  const Case c = make_case(GetParam());
  expect_gradients(c, random_tokens(c.model, c.sequences(), c.length, 6));
}

/// Of 7 tokens: documents of 1, 2 and 4; one alone; of 6 and 1.
TEST_P(Gradients, OfSeparateDocumentsMatchThoseOfThePlainModel) {
  Case c = make_case(GetParam());
  c.starts = {0, 1, 1, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6};
  expect_gradients(c, random_tokens(c.model, c.sequences(), c.length, 6));
}

/// Every third token does not count, in one tensor-parallel rank's part of the vocabulary or another's.
TEST(LossMask, WhatDoesNotCountHasNoLossAndNoGradient) {
  for (const int tensor : {1, 2, 3})
    for (const auto& model : {uneven_llama(false), uneven_model(model::NormPlacement::pre, model::Activation::gelu_tanh, false)}) {
      Case c = make_case({"", model, 0.2});
      c.tensor_parallel = tensor;
      c.split = tensor == 2;
      auto tokens = random_tokens(c.model, c.sequences(), c.length, 6);
      for (std::size_t i = 0; i < tokens.size(); i += 3) tokens[i] = ~tokens[i];
      expect_gradients(c, tokens);
    }
}

/// A microbatch of which nothing counts adds nothing, to the bit.
TEST(LossMask, AMicrobatchWithoutACountedToken) {
  Case c = make_case({"", uneven_llama(true), 0});
  const Values parameters = random_parameters(c.model, 5);
  auto tokens = random_tokens(c.model, c.sequences(), c.length, 6);
  for (std::size_t i = 2 * static_cast<std::size_t>(c.length + 1); i < tokens.size(); ++i) tokens[i] = ~tokens[i];
  const Outcome both = run(c, parameters, tokens);
  c.microbatches = {2};
  tokens.resize(2 * static_cast<std::size_t>(c.length + 1));
  Outcome first = run(c, parameters, tokens);
  for (auto& [name, gradient] : first.gradients)
    for (double& value : gradient) value *= 2.0 / 3;
  EXPECT_NEAR(both.loss, first.loss * 2 / 3, 1e-7 * both.loss);
  EXPECT_LE(worst_difference(both.gradients, first.gradients), 1e-6);
  for (auto& token : tokens) token = token < 0 ? token : ~token;
  const Outcome nothing = run(c, parameters, tokens);
  EXPECT_EQ(nothing.loss, 0);
  for (const auto& [name, gradient] : nothing.gradients) EXPECT_EQ(norm(gradient), 0) << name;
}

using model::Activation;
using model::NormPlacement;

/// What a configuration may say beyond its family: all biases, positions learned and keys shared, stretched angles, windows everywhere.
model::Config mixture() {
  model::Config c = uneven_llama(false);
  c.qkv_bias = c.attention_output_bias = c.feed_forward_bias = true;
  c.windows = {4};
  c.rotary.factor = 8;
  c.rotary.original_positions = 20;
  c.position_offset = 0;
  return c;
}

/// Angles stretched by YaRN, beside those of windows, which are not.
model::Config yarn() {
  model::Config c = uneven_qwen3();
  c.rotary.yarn = true;
  c.rotary.factor = 4;
  c.rotary.original_positions = 40;
  c.rotary.high_frequency = 4;
  c.rotary.window_theta = 30;
  c.windows = {4, 0};
  return c;
}

model::Config no_biases() {
  model::Config c = uneven_model(NormPlacement::post, Activation::relu, true);
  c.qkv_bias = c.attention_output_bias = c.feed_forward_bias = false;
  c.key_value_heads = 2;
  c.norm_kind = model::NormKind::rms;
  c.tied_head = false;
  return c;
}

/// What the newer families have, in combinations that no family has: slopes beside shared keys and windows, norms of kind rms of heads and
/// of the embedding, sub-layers side by side.
model::Config everything_new() {
  model::Config c = uneven_bloom();
  c.key_value_heads = 2;
  c.norm_kind = model::NormKind::rms;
  c.query_key_norms = c.parallel_residual = true;
  c.head_width = 7;
  c.windows = {4, 0};
  return c;
}

/// Every head its own key, all queries before all keys, and norms of both.
model::Config normed_heads() {
  model::Config c = uneven_model(NormPlacement::post, Activation::gelu, false);
  c.query_key_norms = true;
  c.head_width = 4;
  return c;
}

/// Norms of both ends of kind layer, with biases of what they norm.
model::Config layer_output_norms() {
  model::Config c = uneven_model(NormPlacement::pre, Activation::gelu_tanh, false);
  c.output_norms = c.scaled_embedding = true;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Gradients,
    ::testing::Values(Kind{"pre_gelu", uneven_model(NormPlacement::pre, Activation::gelu_tanh, false), 0},
                      Kind{"pre_relu", uneven_model(NormPlacement::pre, Activation::relu, false), 0},
                      Kind{"pre_gelu_projected", uneven_model(NormPlacement::pre, Activation::gelu_tanh, true), 0},
                      Kind{"post_relu_projected", uneven_model(NormPlacement::post, Activation::relu, true), 0},
                      Kind{"post_gelu", uneven_model(NormPlacement::post, Activation::gelu_tanh, false), 0},
                      Kind{"pre_gelu_dropout", uneven_model(NormPlacement::pre, Activation::gelu_tanh, false), 0.2},
                      Kind{"post_relu_projected_dropout", uneven_model(NormPlacement::post, Activation::relu, true), 0.2},
                      Kind{"gpt_neo_dropout", uneven_gpt_neo(), 0.2}, Kind{"llama", uneven_llama(false), 0},
                      Kind{"llama_tied_dropout", uneven_llama(true), 0.2}, Kind{"mixture", mixture(), 0}, Kind{"yarn", yarn(), 0},
                      Kind{"qwen3_dropout", uneven_qwen3(), 0.2}, Kind{"gpt_neox", uneven_gpt_neox(), 0},
                      Kind{"gpt_neox_dropout", uneven_gpt_neox(), 0.2}, Kind{"bloom", uneven_bloom(), 0},
                      Kind{"everything_new", everything_new(), 0.2}, Kind{"normed_heads", normed_heads(), 0},
                      Kind{"no_biases", no_biases(), 0}, Kind{"gemma2", uneven_gemma2(), 0}, Kind{"gemma2_dropout", uneven_gemma2(), 0.2},
                      Kind{"gemma3", uneven_gemma3(), 0}, Kind{"output_norms", layer_output_norms(), 0},
                      Kind{"output_norms_dropout", layer_output_norms(), 0.2},
                      Kind{"adapters", adapted(uneven_model(NormPlacement::pre, Activation::gelu_tanh, false), 3, 1, 1), 0},
                      Kind{"adapters_relu_dropout", adapted(uneven_model(NormPlacement::post, Activation::relu, true), 2, 3, 1), 0.2},
                      Kind{"adapters_llama", adapted(uneven_llama(false), 2, 3, 2), 0},
                      Kind{"adapters_everything_new", adapted(everything_new(), 2, 3, 1), 0.2},
                      Kind{"adapters_gemma3", adapted(uneven_gemma3(), 2, 3, 2), 0.2},
                      Kind{"adapters_bloom", adapted(uneven_bloom(), 3, 3, 1), 0}),
    [](const auto& kind) { return std::string{kind.param.name}; });

/// Longer than one block of queries, and not a multiple of it; in a window, later blocks see no key before the second 64.
void expect_long_sequence(const model::Config& model, const std::vector<const char*>& names, const std::vector<std::int32_t>& starts = {}) {
  Case c = make_case({"", model, 0.1});
  c.model.blocks = 1;
  c.threads = 2;
  c.length = starts.empty() ? 150 : static_cast<int>(starts.size());
  c.starts = starts;
  c.microbatches = {1};
  const Values parameters = random_parameters(c.model, 15);
  const auto tokens = random_tokens(c.model, 1, c.length, 16);
  const Outcome outcome = run(c, parameters, tokens);
  EXPECT_NEAR(outcome.loss, reference_loss(c, parameters, tokens), 2e-6 * outcome.loss);
  for (const char* name : names) {
    const auto& gradient = outcome.gradients.at(name);
    std::vector<double> direction(gradient.size());
    double expected = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] = static_cast<double>(uniform(Philox{12, 1}(i)[0])) - 0.5;
      expected += gradient[i] * direction[i];
    }
    EXPECT_NEAR(difference(c, parameters, tokens, name, direction), expected, 3e-5 * norm(direction) * norm(gradient)) << name;
  }
}

TEST(LongSequence, MatchesThePlainModel) {
  expect_long_sequence(uneven_model(NormPlacement::pre, Activation::gelu_tanh, false),
                       {"block.0.attention.qkv.weight", "block.0.attention.qkv.bias", "embedding.position"});
}

TEST(LongSequence, InAWindow) {
  model::Config neo = uneven_gpt_neo(), llama = uneven_llama(false);
  neo.windows = {20};
  llama.windows = {65};
  expect_long_sequence(neo, {"block.0.attention.qkv.weight", "embedding.position"});
  expect_long_sequence(llama, {"block.0.attention.qkv.weight", "embedding.word"});
}

TEST(LongSequence, OfNewerFamilies) {
  expect_long_sequence(uneven_qwen3(), {"block.0.attention.qkv.weight", "block.0.attention.query_norm.weight"});
  expect_long_sequence(uneven_gpt_neox(), {"block.0.attention.qkv.weight", "embedding.word"});
  expect_long_sequence(uneven_bloom(), {"block.0.attention.qkv.weight", "embedding.norm.weight"});
  expect_long_sequence(uneven_gemma2(), {"block.0.attention.qkv.weight", "block.0.attention.output_norm.weight"});
  expect_long_sequence(uneven_gemma3(), {"block.0.attention.qkv.weight", "embedding.word"});
}

/// A document that begins in the second block of queries, behind one token alone: the third block leaves keys out.
TEST(LongSequence, OfDocuments) {
  std::vector<std::int32_t> starts(290);
  for (int i = 0; i < 290; ++i) starts[static_cast<std::size_t>(i)] = i < 60 ? 0 : i == 60 ? 60 : i < 150 ? 61 : 150;
  model::Config learned = uneven_model(NormPlacement::pre, Activation::gelu_tanh, false), llama = uneven_llama(false);
  learned.positions = 300;
  llama.windows = {70};
  expect_long_sequence(learned, {"block.0.attention.qkv.weight", "embedding.position"}, starts);
  expect_long_sequence(llama, {"block.0.attention.qkv.weight", "embedding.word"}, starts);
  expect_long_sequence(uneven_bloom(), {"block.0.attention.qkv.weight"}, starts);
}

TEST(Evaluation, DropsNothing) {
  Case c = make_case({"", uneven_model(NormPlacement::pre, Activation::gelu_tanh, false), 0.5});
  c.training = false;
  const Values parameters = random_parameters(c.model, 5);
  const auto tokens = random_tokens(c.model, c.sequences(), c.length, 6);
  Case plain = c;
  plain.model.dropout = plain.model.attention_dropout = 0;
  plain.training = true;
  EXPECT_EQ(run(c, parameters, tokens).loss, run(plain, parameters, tokens).loss);
}

}  // namespace
}  // namespace flotilla::compute::test
