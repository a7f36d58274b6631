#include "flotilla/model/config.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"

namespace flotilla::model::config_test {
namespace {

using tests::refusal;

TEST(BuiltIn, HuggingFaceShapes) {
  const Config gpt2 = built_in("gpt2");
  EXPECT_EQ(gpt2.blocks, 12);
  EXPECT_EQ(gpt2.head_size(), 64);
  EXPECT_EQ(gpt2.vocabulary, 50257);
  EXPECT_EQ(gpt2.positions, 1024);
  EXPECT_TRUE(gpt2.scaled_residual_init);
  const Config opt = built_in("opt-350m");
  EXPECT_EQ(opt.norm, NormPlacement::post);
  EXPECT_TRUE(opt.projects());
  EXPECT_FALSE(opt.final_norm);
  EXPECT_EQ(opt.embedding_width, 512);
  EXPECT_EQ(opt.position_offset, 2);
  EXPECT_EQ(opt.activation, Activation::relu);
}

TEST(BuiltIn, GptNeoAndLlamaShapes) {
  const Config neo = built_in("gpt-neo-2.7b");
  EXPECT_EQ(neo.window(0), 0);
  EXPECT_EQ(neo.window(1), 256);
  EXPECT_EQ(neo.window(31), 256);
  EXPECT_FALSE(neo.scaled_scores);
  EXPECT_FALSE(neo.rotates());
  const Config llama = built_in("llama-3.2-1b");
  EXPECT_EQ(llama.groups(), 8);
  EXPECT_EQ(llama.queries_per_group(), 4);
  EXPECT_TRUE(llama.tied_head);
  EXPECT_EQ(llama.rotary.factor, 32);
  EXPECT_EQ(built_in("llama-2-7b").groups(), 32);
  EXPECT_EQ(built_in("llama-2-7b").key_value_heads, 0);
}

TEST(BuiltIn, EveryNameIsFoundInAnyCaseAndIsPossible) {
  for (const std::string& name : built_in_names()) {
    std::string upper = name;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const Config config = built_in(upper);
    EXPECT_EQ(config.name, name);
    EXPECT_NO_THROW(check(config, name));
  }
}

TEST(BuiltIn, UnknownNameGetsTheNearest) {
  const std::string message = refusal([] { built_in("opt-350"); });
  EXPECT_NE(message.find("'opt-350'"), std::string::npos) << message;
  EXPECT_NE(message.find("'opt-350m'"), std::string::npos) << message;
  EXPECT_NE(refusal([] { built_in("gtp2"); }).find("'gpt2'"), std::string::npos);
}

TEST(Check, NamesPlaceFieldAndWhatItMustBe) {
  Config c = built_in("gpt2-tiny");
  c.heads = 7;
  const std::string message = refusal([&] { check(c, "config.json"); });
  EXPECT_EQ(message.rfind("config.json: ", 0), 0u) << message;
  EXPECT_NE(message.find("multiple of heads (7)"), std::string::npos) << message;
}

TEST(Check, RefusesEveryImpossibleField) {
  const auto refuses = [](auto&& spoil, const char* field) {
    Config c = built_in("opt-post-tiny");
    spoil(c);
    EXPECT_NE(refusal([&] { check(c, "here"); }).find(field), std::string::npos) << field;
  };
  refuses([](Config& c) { c.blocks = 0; }, "blocks");
  refuses([](Config& c) { c.blocks = 2049; }, "blocks is 2049; it must be at most 2048");
  refuses([](Config& c) { c.hidden = -64; }, "hidden");
  refuses([](Config& c) { c.heads = 0; }, "heads");
  refuses([](Config& c) { c.feed_forward = 0; }, "feed_forward");
  refuses([](Config& c) { c.vocabulary = 1 << 30; }, "vocabulary");
  refuses([](Config& c) { c.positions = 0; }, "positions");
  refuses([](Config& c) { c.position_offset = -1; }, "position_offset");
  refuses([](Config& c) { c.embedding_width = 0; }, "embedding_width");
  refuses([](Config& c) { c.norm_epsilon = 0; }, "norm_epsilon");
  refuses([](Config& c) { c.norm_epsilon = 1e300; }, "norm_epsilon");
  refuses([](Config& c) { c.init_std = 1e-40; }, "init_std");
  refuses([](Config& c) { c.init_std = std::numeric_limits<double>::quiet_NaN(); }, "init_std");
  refuses([](Config& c) { c.dropout = 1; }, "dropout");
  refuses([](Config& c) { c.attention_dropout = -0.1; }, "attention_dropout");
  refuses([](Config& c) { c.key_value_heads = 3; }, "key_value_heads");
  refuses([](Config& c) { c.key_value_heads = 8; }, "key_value_heads");
  refuses([](Config& c) { c.windows = {0, -1}; }, "attention window");
  refuses([](Config& c) { c.rotary.theta = -1; }, "theta");
  refuses([](Config& c) { c.rotary.theta = 1e-300; }, "theta");
  refuses([](Config& c) { c.rotary.factor = 0.5; }, "factor");
  refuses([](Config& c) { c.rotary.low_frequency = 4; }, "low_frequency");
  refuses([](Config& c) { c.rotary.original_positions = 0; }, "original_positions");
  refuses([](Config& c) { c.heads = 64, c.rotary.theta = 1e4; }, "even");
  refuses([](Config& c) { c.head_width = -1; }, "head_width");
  refuses([](Config& c) { c.head_width = 1 << 24; }, "head_width");
  refuses([](Config& c) { c.rotary.theta = 1e4, c.rotary.width = 3; }, "rotary width");
  refuses([](Config& c) { c.rotary.theta = 1e4, c.rotary.width = 18; }, "rotary width");
  refuses([](Config& c) { c.rotary.theta = 1e4, c.alibi = true; }, "alibi");
  refuses([](Config& c) { c.embedding_norm = true; }, "embedding_norm");
  refuses([](Config& c) { c.parallel_residual = true; }, "parallel_residual");
  refuses([](Config& c) { c.norm_offset = true; }, "norm_offset");
  refuses([](Config& c) { c.output_norms = true; }, "output_norms");
  refuses([](Config& c) { c.score_width = -1; }, "score_width");
  refuses([](Config& c) { c.score_width = 4, c.scaled_scores = false; }, "score_width");
  refuses([](Config& c) { c.score_cap = -1; }, "score_cap");
  refuses([](Config& c) { c.rotary.theta = 0, c.score_cap = 50, c.alibi = true; }, "score_cap");
  refuses([](Config& c) { c.logit_cap = std::numeric_limits<double>::infinity(); }, "logit_cap");
  refuses([](Config& c) { c.rotary.theta = 1e4, c.rotary.window_theta = 0.5; }, "theta of windows");
  refuses([](Config& c) { c.rotary.window_theta = 1e4; }, "theta of windows");
}

TEST(Fingerprint, OlderFamiliesKeepTheirs) {
  EXPECT_EQ(fingerprint(built_in("gpt2-tiny"), 64),
            "hidden 64, heads 4, feed-forward 256, vocabulary 256, embedding 64, pre-norm, gelu, final norm, length 64");
}

/// Press et al. 2022: 8 heads from 1/2 to 1/256; 12 heads have four more of 16 heads' slopes between.
TEST(HeadSlope, OfPowersOfTwoAndOthers) {
  for (int head = 0; head < 8; ++head) EXPECT_DOUBLE_EQ(head_slope(head, 8), std::exp2(-(head + 1)));
  for (int head = 0; head < 8; ++head) EXPECT_EQ(head_slope(head, 12), head_slope(head, 8));
  for (int head = 8; head < 12; ++head) EXPECT_DOUBLE_EQ(head_slope(head, 12), std::exp2(-0.5 * (2 * (head - 8) + 1)));
}

TEST(Fingerprint, TellsFamiliesApart) {
  const Config llama = built_in("llama-tiny");
  const auto differs = [&](auto&& change) {
    Config other = llama;
    change(other);
    EXPECT_NE(shape_of(fingerprint(other, 64)), shape_of(fingerprint(llama, 64)));
  };
  differs([](Config& c) { c.key_value_heads = 2; });
  differs([](Config& c) { c.norm_kind = NormKind::layer; });
  differs([](Config& c) { c.rotary.theta = 0; });
  differs([](Config& c) { c.windows = {0, 64}; });
  differs([](Config& c) { c.qkv_bias = true; });
  differs([](Config& c) { c.attention_output_bias = true; });
  differs([](Config& c) { c.feed_forward_bias = true; });
  differs([](Config& c) { c.tied_head = true; });
  differs([](Config& c) { c.activation = Activation::gelu_tanh; });
  differs([](Config& c) { c.activation = Activation::gelu; });
  differs([](Config& c) { c.head_width = 32; });
  differs([](Config& c) { c.query_key_norms = true; });
  differs([](Config& c) { c.alibi = true; });
  differs([](Config& c) { c.embedding_norm = true; });
  differs([](Config& c) { c.parallel_residual = true; });
  differs([](Config& c) { c.rotary.width = 8; });
  differs([](Config& c) { c.activation = Activation::geglu; });
  differs([](Config& c) { c.output_norms = true; });
  differs([](Config& c) { c.score_cap = 50; });
  differs([](Config& c) { c.logit_cap = 30; });
}

}  // namespace
}  // namespace flotilla::model::config_test
