#include "flotilla/model/experts.hpp"

#include <gtest/gtest.h>

#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/model/tensors.hpp"
#include "support/refusal.hpp"

namespace flotilla::model::experts_test {
namespace {

using tests::expect_refused;

std::map<std::string, Tensor> tensors_by_name(const Config& c) {
  std::map<std::string, Tensor> by_name;
  for (const Tensor& t : tensors(c)) by_name[t.name] = t;
  return by_name;
}

/// All parameters: those of the published files. Active ones: by hand; the makers say 12.9, 39, 2.7, 3.3, 22, 1.3 and 2.8 billion.
TEST(Experts, ParametersAreThePublishedModels) {
  struct Published {
    const char* name;
    std::int64_t all, active;
    double said;
  };
  for (const auto& [name, all, active, said] :
       {Published{"mixtral-8x7b", 46702792704, 12879925248, 12.9}, Published{"mixtral-8x22b", 140620634112, 39152031744, 39},
        Published{"qwen1.5-moe-a2.7b", 14315784192, 2689173504, 2.7}, Published{"qwen3-30b-a3b", 30532122624, 3353032704, 3.3},
        Published{"qwen3-235b-a22b", 235093634560, 22190763520, 22}, Published{"olmoe-1b-7b", 6919161856, 1282017280, 1.3},
        Published{"deepseek-moe-16b", 16375728128, 2828650496, 2.8}}) {
    const Config c = built_in(name);
    EXPECT_EQ(parameter_count(c), all) << name;
    EXPECT_EQ(active_parameter_count(c), active) << name;
    EXPECT_NEAR(static_cast<double>(active) / 1e9, said, 0.02 * said) << name;
  }
  EXPECT_EQ(active_parameter_count(built_in("gpt2")), parameter_count(built_in("gpt2")));
}

TEST(Experts, TensorsStandInPlaceOfTheFeedForwardLayer) {
  const auto mixtral = tensors_by_name(built_in("mixtral-8x7b"));
  EXPECT_FALSE(mixtral.contains("block.0.feed_forward.up.weight"));
  EXPECT_EQ(mixtral.at("block.31.experts.router.weight").shape, (std::vector<std::int64_t>{8, 4096}));
  const Tensor &up = mixtral.at("block.0.experts.up.weight"), &down = mixtral.at("block.0.experts.down.weight");
  EXPECT_EQ(up.shape, (std::vector<std::int64_t>{8, 2 * 14336, 4096}));
  EXPECT_EQ(up.units(), 14336);
  EXPECT_EQ(down.shape, (std::vector<std::int64_t>{8, 4096, 14336}));
  EXPECT_EQ(down.units(), 14336);
  const auto deepseek = tensors_by_name(built_in("deepseek-moe-16b"));
  EXPECT_EQ(deepseek.at("block.0.feed_forward.up.weight").shape, (std::vector<std::int64_t>{2 * 10944, 2048}));
  EXPECT_FALSE(deepseek.contains("block.0.experts.up.weight"));
  EXPECT_FALSE(deepseek.contains("block.1.feed_forward.up.weight"));
  EXPECT_EQ(deepseek.at("block.1.shared.down.weight").shape, (std::vector<std::int64_t>{2048, 2816}));
  EXPECT_FALSE(deepseek.contains("block.1.shared.gate.weight"));
  EXPECT_EQ(tensors_by_name(built_in("qwen1.5-moe-a2.7b")).at("block.1.shared.gate.weight").shape, (std::vector<std::int64_t>{1, 2048}));
  EXPECT_EQ(tensors_by_name(built_in("olmoe-1b-7b")).at("block.1.attention.query_norm.weight").units(), 16);
}

/// A token's forward pass is two FLOPs for every element of the router and of the experts that it goes through.
TEST(Experts, FlopsByHand) {
  const LayerShape one{1, 1};
  EXPECT_DOUBLE_EQ(flops(built_in("mixtral-8x7b"), one, Operation::mlp_forward), 2.0 * (2 * 3 * 4096.0 * 14336 + 4096 * 8));
  EXPECT_DOUBLE_EQ(flops(built_in("qwen1.5-moe-a2.7b"), one, Operation::mlp_forward), 2.0 * (3 * 2048.0 * (4 * 1408 + 5632) + 2048 * 60));
  const Config deepseek = built_in("deepseek-moe-16b");  // the mean of 27 blocks with experts and one without
  const double dense = 3 * 2048.0 * 10944, experts = 3 * 2048.0 * (6 * 1408 + 2816) + 2048 * 64;
  EXPECT_NEAR(flops(deepseek, one, Operation::mlp_forward), 2 * (27 * experts + dense) / 28, 1);
  EXPECT_DOUBLE_EQ(flops(deepseek, one, Operation::mlp_backward), 2 * flops(deepseek, one, Operation::mlp_forward));
  for (const char* name : {"mixtral-8x7b", "qwen3-30b-a3b", "deepseek-moe-16b"}) {
    const Config c = built_in(name);
    double cut = 0;
    for (int i = 0; i < 3; ++i) cut += flops(c, {1, 1, 3, i}, Operation::mlp_forward);
    const double routers = 2 * 2 * static_cast<double>(c.hidden) * c.experts.count * c.expert_blocks() / c.blocks;
    EXPECT_NEAR(cut - routers, flops(c, one, Operation::mlp_forward), 1e-9 * cut) << name << ": every member has the whole router";
    // 6 FLOPs an active parameter, but for the embedding that is only looked up and norms; and attention over the tokens before.
    const double products = 6 * static_cast<double>(active_parameter_count(c) - std::int64_t{c.hidden} * c.vocabulary);
    const double scores = 12.0 * static_cast<double>(c.attention_width()) * c.blocks * (64 + 1) / 2;
    EXPECT_NEAR(training_flops_per_token(c, 64), products + scores, 2e-3 * products) << name;
  }
}

TEST(Experts, TrafficHasTheWeightsThatAreHere) {
  const Config c = built_in("mixtral-8x7b");
  const double each = 3 * 4096.0 * 14336 * 2;
  LayerShape shape{1, 1, 1, 0, Precision::bf16};
  const auto bytes = [&] { return static_cast<double>(traffic(c, shape, Operation::mlp_forward).count); };
  EXPECT_NEAR(bytes(), 8 * each, 0.01 * each);
  shape.expert_parallel = 4;
  EXPECT_NEAR(bytes(), 2 * each, 0.01 * each);
  shape.expert_parallel = 1, shape.tensor_parallel = 2;
  EXPECT_NEAR(bytes(), 4 * each, 0.01 * each);
  // A further token: its hidden columns through two experts, and rows of `hidden`: 5 as ever, 6 for each expert.
  shape = {1, 1024, 1, 0, Precision::bf16};
  const double token = (3 * 2 * 14336.0 + (5 + 6 * 2) * 4096) * 2 + 4 * 8;
  EXPECT_NEAR(bytes() - 8 * each, 1024 * token, 0.001 * each);
}

/// Of two tokens in bf16, beside what Mixtral's dense sister keeps: twice its hidden columns, the probabilities of eight experts in fp32,
/// and the tokens before and behind two experts.
TEST(Experts, ABlockKeepsWhatItsTokensGoThrough) {
  const Config c = built_in("mixtral-8x7b");
  Config dense = c;
  dense.experts = {};
  const LayerShape shape{1, 2, 1, 0, Precision::bf16};
  const Bytes more{2 * (3 * 14336 * 2 + 8 * 4 + 2 * 2 * 4096 * 2)};
  EXPECT_EQ(block_layout(c, shape).total - block_layout(dense, shape).total, more);
  EXPECT_GT(workspace(c, shape, Operation::mlp_backward, 1), workspace(dense, shape, Operation::mlp_backward, 1));
  const Config deepseek = built_in("deepseek-moe-16b");
  EXPECT_EQ(local_columns(deepseek, shape), 6 * 1408 + 2816) << "more than the dense block's 10944";
}

TEST(Experts, LimitTensorParallelism) {
  Config c = built_in("mixtral-8x7b");
  EXPECT_EQ(largest_tensor_parallel(c), 8);
  c.experts.width = 4;
  EXPECT_EQ(largest_tensor_parallel(c), 4);
  EXPECT_EQ(limit_of_tensor_parallel(c), "the feed-forward columns");
}

TEST(Experts, AreForecastAndNotExecuted) {
  EXPECT_EQ(forecast_only(built_in("llama-2-7b")), std::nullopt);
  EXPECT_NO_THROW(require_executable(built_in("llama-2-7b"), "x"));
  expect_refused([] { require_executable(built_in("mixtral-8x7b"), "job.toml"); }, "job.toml: the model has a mixture of experts",
                 "flotilla plan");
  Config wide = built_in("qwen3-tiny");
  wide.wide_head_norms = true;
  expect_refused([&] { require_executable(wide, "job.toml"); }, "all heads", "flotilla simulate");
}

TEST(Experts, ThatCannotBeAreRefused) {
  const auto refused = [](const auto& change, const char* what, const char* expected) {
    Config c = built_in("deepseek-moe-16b");
    change(c);
    expect_refused([&] { check(c, "m"); }, what, expected);
  };
  refused([](Config& c) { c.experts.per_token = 65; }, "experts.per_token is 65", "1 to experts.count (64)");
  refused([](Config& c) { c.experts.width = 0; }, "experts.width is 0", "1 or more");
  refused([](Config& c) { c.experts.width = 1 << 24; }, "goes through 6 experts of 16777216 columns", "at most");
  refused([](Config& c) { c.experts.shared_width = -1; }, "-1 shared", "none below 0");
  refused([](Config& c) { c.experts.shared_gate = true, c.experts.shared_width = 0; }, "shared_gate", "shared_width");
  refused([](Config& c) { c.experts.dense_blocks = {0, 28}; }, "dense_blocks has 28", "0 to 27");
  refused([](Config& c) { c.experts.dense_blocks = {3, 1}; }, "dense_blocks has 1", "in order");
  refused([](Config& c) { c.blocks = 1; }, "every block", "one must have experts");
  refused([](Config& c) { c.wide_head_norms = true; }, "wide_head_norms", "query_key_norms");
  refused([](Config& c) { c.lora = {4, 8, {Linear::qkv}}; }, "LoRA", "experts");
}

TEST(Experts, AreInTheFingerprint) {
  const Config c = built_in("deepseek-moe-16b");
  for (const auto& change : {+[](Config& d) { d.experts.count = 32; }, +[](Config& d) { d.experts.per_token = 2; },
                             +[](Config& d) { d.experts.width = 64; }, +[](Config& d) { d.experts.shared_width = 64; },
                             +[](Config& d) {
                               d.experts.dense_blocks = {0, 1};
                             },
                             +[](Config& d) { d.experts = {}; }}) {
    Config other = c;
    change(other);
    EXPECT_NE(fingerprint(other, 64), fingerprint(c, 64));
  }
}

}  // namespace
}  // namespace flotilla::model::experts_test
