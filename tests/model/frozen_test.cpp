// Which tensors are not trained, by patterns of their names.
#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/model/tensors.hpp"

namespace flotilla::model::frozen_test {
namespace {

Config frozen(const std::string& model, std::vector<std::string> patterns) {
  Config config = built_in(model);
  config.frozen = std::move(patterns);
  return config;
}

std::vector<std::string> frozen_names(const Config& config) {
  std::vector<std::string> names;
  for (const Tensor& t : tensors(config))
    if (!t.trained) names.push_back(t.name);
  return names;
}

TEST(Frozen, PatternsTakeNamesWhole) {
  using Names = std::vector<std::string>;
  EXPECT_TRUE(frozen_names(built_in("gpt2-tiny")).empty());
  EXPECT_EQ(frozen_names(frozen("gpt2-tiny", {"embedding.word"})), (Names{"embedding.word"}));
  EXPECT_EQ(frozen_names(frozen("gpt2-tiny", {"embedding.*"})), (Names{"embedding.word", "embedding.position"}));
  EXPECT_EQ(frozen_names(frozen("gpt2-tiny", {"block.?.norm1.bias", "*head*"})),
            (Names{"block.0.norm1.bias", "block.1.norm1.bias", "head.norm.weight", "head.norm.bias"}));
  EXPECT_EQ(frozen_names(frozen("gpt2-tiny", {"*1.*norm?.w*t"})), (Names{"block.1.norm1.weight", "block.1.norm2.weight"}));
  EXPECT_TRUE(frozen_names(frozen("gpt2-tiny", {"embedding", "embedding.wor", "word", "embedding.word?", ""})).empty());
  EXPECT_EQ(frozen_names(frozen("llama-tiny", {"*"})).size(), tensors(built_in("llama-tiny")).size());
}

/// A pattern that would take exponential time where every star is tried anew.
TEST(Frozen, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 5000; ++i) pattern += "*e";
  EXPECT_TRUE(frozen_names(frozen("gpt2-tiny", {pattern})).empty());
}

TEST(Frozen, BadPatternsAreRefusedWithNearOnes) {
  EXPECT_FALSE(wrong_with_frozen(built_in("gpt2-tiny")));
  EXPECT_FALSE(wrong_with_frozen(frozen("gpt2-tiny", {"embedding.*", "block.0.*"})));
  EXPECT_EQ(wrong_with_frozen(frozen("gpt2-tiny", {"embedding.*", "layers.0.*"})),
            "no tensor of gpt2-tiny matches 'layers.0.*'; near it are 'block.0.*', 'block.1.*', 'head.*'");
  EXPECT_EQ(wrong_with_frozen(frozen("gpt2-tiny", {"embeding.word"})),
            "no tensor of gpt2-tiny matches 'embeding.word'; near it are 'embedding.word', 'embedding.*', 'embedding.position'");
  EXPECT_EQ(wrong_with_frozen(frozen("gpt2-tiny", {"embedding.*", "block.*", "head.*"})), "nothing is left to train; freeze fewer tensors");
}

TEST(Frozen, NoGradientIsNeededBelowTheFirstTrainedLayer) {
  const auto first = [](const Config& config) { return first_trained_layer(config, tensors(config)); };
  EXPECT_EQ(first(built_in("gpt2-tiny")), 0);
  EXPECT_EQ(first(frozen("gpt2-tiny", {"block.*"})), 0);
  EXPECT_EQ(first(frozen("gpt2-tiny", {"embedding.*", "block.0.*"})), 2);
  EXPECT_EQ(first(frozen("gpt2-tiny", {"embedding.position", "block.*"})), 0);  // the table is the head's as well, and trained there
  EXPECT_EQ(first(frozen("llama-tiny", {"embedding.*", "block.*"})), 3);
  EXPECT_EQ(first(frozen("llama-tiny", {"*"})), built_in("llama-tiny").layers());
}

TEST(Frozen, ProductsAreTrainedWhereOneOfTheirWeightsIs) {
  const auto trains = [](const Config& config, Operation operation, int layer) {
    return trains_products(config, tensors(config), operation, layer);
  };
  using enum Operation;
  const auto mlp = frozen("gpt2-tiny", {"block.0.feed_forward.*", "block.1.feed_forward.up.*", "block.0.attention.*.weight"});
  EXPECT_FALSE(trains(mlp, mlp_backward, 1));
  EXPECT_FALSE(trains(mlp, mlp_backward_weights, 1));
  EXPECT_TRUE(trains(mlp, mlp_backward, 2));
  EXPECT_TRUE(trains(mlp, attention_backward, 1)) << "the bias of qkv";
  EXPECT_TRUE(trains(mlp, head_backward, 3));
  EXPECT_TRUE(trains(mlp, block_begin_backward, 1));
  EXPECT_FALSE(trains(frozen("gpt2-tiny", {"embedding.word"}), head_backward, 3)) << "the head's table, too";
  EXPECT_TRUE(trains(frozen("llama-tiny", {"embedding.word"}), head_backward, 3));
  EXPECT_FALSE(trains(frozen("llama-tiny", {"head.word"}), head_backward, 3));
}

}  // namespace
}  // namespace flotilla::model::frozen_test
