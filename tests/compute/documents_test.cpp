#include <gtest/gtest.h>

#include <random>

#include "compute/harness.hpp"

/// Documents that are packed into sequences and kept apart have the loss and the gradients that they have alone.
namespace flotilla::compute::test {
namespace {

using model::Activation;
using model::NormPlacement;

struct Kind {
  const char* name;
  model::Config model;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

/// Of every sequence where its tokens' documents begin: documents of 1 to `most` tokens, the first ones of 1.
std::vector<std::int32_t> random_starts(int sequences, int length, int most, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<std::int32_t> starts;
  for (int s = 0; s < sequences; ++s)
    for (int start = 0; start < length;) {
      const int tokens = start < 2 ? 1 : std::min(length - start, std::uniform_int_distribution<int>{1, most}(random));
      for (int i = 0; i < tokens; ++i) starts.push_back(start);
      start += tokens;
    }
  return starts;
}

model::Config with_room(model::Config c) {
  c.positions = 600;
  return c;
}

Case packed(const model::Config& model, int length, int most) {
  Case c;
  c.model = model;
  c.length = length;
  c.microbatches = {2, 1};
  c.starts = random_starts(c.sequences(), length, most, 3);
  return c;
}

/// The mean over all tokens of what the documents give one by one. A document's last target is the next one's first token.
Outcome alone(const Case& together, const Values& parameters, const std::vector<std::int32_t>& tokens) {
  Outcome all;
  const double count = together.sequences() * together.length;
  for (int s = 0; s < together.sequences(); ++s)
    for (int first = 0, last = 0; first < together.length; first = last) {
      while (last < together.length && together.starts[static_cast<std::size_t>(s * together.length + last)] == first) ++last;
      Case one = together;
      one.starts.clear();
      one.length = last - first;
      one.microbatches = {1};
      const auto begin = tokens.begin() + s * (together.length + 1) + first;
      const Outcome document = run(one, parameters, {begin, begin + one.length + 1});
      const double share = one.length / count;
      all.loss += share * document.loss;
      all.logits.insert(all.logits.end(), document.logits.begin(), document.logits.end());
      for (const auto& [name, gradient] : document.gradients) {
        auto& sum = all.gradients[name];
        sum.resize(gradient.size());
        for (std::size_t i = 0; i < gradient.size(); ++i) sum[i] += share * gradient[i];
      }
    }
  return all;
}

void expect_as_alone(const Case& c, double bound) {
  const Values parameters = random_parameters(c.model, 31);
  const auto tokens = random_tokens(c.model, c.sequences(), c.length, 32);
  const Outcome together = run(c, parameters, tokens), expected = alone(c, parameters, tokens);
  EXPECT_NEAR(together.loss, expected.loss, bound * expected.loss);
  EXPECT_LT(relative_difference(together.logits, expected.logits, 1e-9), bound);
  EXPECT_LT(worst_difference(together.gradients, expected.gradients), 10 * bound);
  Case joined = c;
  joined.starts.clear();
  EXPECT_GT(std::abs(run(joined, parameters, tokens).loss - expected.loss), 1e-4 * expected.loss) << "documents make no difference";
}

class Documents : public ::testing::TestWithParam<Kind> {};

TEST_P(Documents, PackedAreAsAlone) { expect_as_alone(packed(GetParam().model, 19, 9), 2e-6); }

TEST_P(Documents, InBothHalvesOfTheBackwardPass) {
  Case c = packed(GetParam().model, 19, 9);
  c.split = c.drops = true;
  expect_as_alone(c, 2e-6);
}

TEST_P(Documents, OnATensorParallelGroupThatSharesTokens) {
  Case c = packed(GetParam().model, 19, 9);
  c.tensor_parallel = model::largest_tensor_parallel(c.model) >= 3 ? 3 : 2;
  c.shares = true;
  // Alone, a document of one token leaves members without any.
  Case whole = c;
  whole.tensor_parallel = 1;
  whole.shares = false;
  const Values parameters = random_parameters(c.model, 31);
  const auto tokens = random_tokens(c.model, c.sequences(), c.length, 32);
  const Outcome cut = run(c, parameters, tokens), expected = run(whole, parameters, tokens);
  EXPECT_NEAR(cut.loss, expected.loss, 1e-6 * expected.loss);
  EXPECT_LT(worst_difference(cut.gradients, expected.gradients), 1e-5);
}

/// Dropout is drawn by the place in the sequence, whatever the documents: groups and threads change nothing.
TEST_P(Documents, WithDropoutOnAnyThreads) {
  Case c = packed(with_room(GetParam().model), 300, 200);
  c.model.dropout = 0.2;
  c.model.attention_dropout = 0.3;
  const Values parameters = random_parameters(c.model, 31);
  const auto tokens = random_tokens(c.model, c.sequences(), c.length, 32);
  const Outcome one = run(c, parameters, tokens);
  c.threads = 3;
  const Outcome three = run(c, parameters, tokens);
  EXPECT_NEAR(three.loss, one.loss, 1e-6 * one.loss);
  EXPECT_LT(worst_difference(three.gradients, one.gradients), 1e-5);
}

model::Config bloom_in_windows() {
  model::Config c = uneven_bloom();
  c.windows = {70, 0};
  return c;
}

/// Blocks whose first keys, 128 at a time, are of earlier documents.
TEST_P(Documents, OfSeveralBlocksOfQueries) {
  Case c = packed(with_room(GetParam().model), 520, 333);
  c.model.blocks = 1;
  c.microbatches = {1};
  c.threads = 2;
  c.starts = random_starts(1, c.length, 333, 8);
  expect_as_alone(c, 3e-6);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Documents,
                         ::testing::Values(Kind{"learned", uneven_model(NormPlacement::pre, Activation::gelu_tanh, false)},
                                           Kind{"learned_projected", uneven_model(NormPlacement::post, Activation::relu, true)},
                                           Kind{"windows", uneven_gpt_neo()}, Kind{"rotary", uneven_llama(false)},
                                           Kind{"partly_rotary", uneven_gpt_neox()}, Kind{"slopes", uneven_bloom()},
                                           Kind{"slopes_in_windows", bloom_in_windows()}, Kind{"caps", uneven_gemma2()},
                                           Kind{"angles_of_windows", uneven_gemma3()}),
                         [](const auto& kind) { return std::string{kind.param.name}; });

class HalfDocuments : public ::testing::TestWithParam<Precision> {};

/// Heads of 32: on a GPU by tensor cores.
TEST_P(HalfDocuments, PackedAreAsAlone) {
  for (model::Config model : {uneven_llama(false), uneven_bloom(), uneven_gpt_neo()}) {
    model.hidden = model.embedding_width = 32 * model.heads;
    model.positions = 600;
    model.blocks = 1;
    Case c = packed(model, 150, 60);
    c.microbatches = {1};
    c.starts = random_starts(1, c.length, 60, 9);
    c.precision = GetParam();
    c.loss_scale = c.precision == Precision::fp16 ? 64 : 1;
    expect_as_alone(c, c.precision == Precision::fp16 ? 1e-3 : 8e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, HalfDocuments, ::testing::Values(Precision::bf16, Precision::fp16),
                         [](const auto& precision) { return to_string(precision.param); });

}  // namespace
}  // namespace flotilla::compute::test
