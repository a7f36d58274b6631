#include <gtest/gtest.h>

#include "flotilla/base/text.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/plan_file.hpp"
#include "support/refusal.hpp"
#include "support/text.hpp"

namespace flotilla::files::hugging_face_experts_test {
namespace {

using tests::expect_refused;
using tests::replaced;

// As published with the models, keys that only concern generation and the balance of experts included.
const std::string mixtral_json = R"({
  "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
  "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
  "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 32000})";

const std::string qwen15_json = R"({
  "architectures": ["Qwen2MoeForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "decoder_sparse_step": 1,
  "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632,
  "max_position_embeddings": 8192, "max_window_layers": 21, "model_type": "qwen2_moe", "moe_intermediate_size": 1408,
  "norm_topk_prob": false, "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24,
  "num_key_value_heads": 16, "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 5632, "sliding_window": 32768, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

const std::string qwen3_json = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "decoder_sparse_step": 1, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144, "max_position_embeddings": 40960,
  "max_window_layers": 48, "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
  "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
  "use_sliding_window": false, "vocab_size": 151936})";

const std::string olmoe_json = R"({
  "architectures": ["OlmoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "clip_qkv": null, "hidden_act": "silu",
  "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 1024, "max_position_embeddings": 4096, "model_type": "olmoe",
  "norm_topk_prob": false, "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 16,
  "num_key_value_heads": 16, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "vocab_size": 50304})";

const std::string deepseek_json = R"({
  "architectures": ["DeepseekForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "first_k_dense_replace": 1,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 10944, "max_position_embeddings": 4096,
  "model_type": "deepseek", "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2,
  "norm_topk_prob": false, "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 28, "num_key_value_heads": 16,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000, "scoring_func": "softmax", "tie_word_embeddings": false,
  "vocab_size": 102400})";

model::Config read(const std::string& text, std::string_view name = "m") {
  return hugging_face_config_from_json(text, "config.json", name);
}

void refused(const std::string& json, std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
  expect_refused([&] { read(replaced(json, from, to)); }, part, other, "config.json");
}

TEST(HuggingFaceExperts, PublishedConfigsAreTheBuiltInModels) {
  EXPECT_EQ(read(mixtral_json, "mixtral-8x7b"), model::built_in("mixtral-8x7b"));
  EXPECT_EQ(read(qwen15_json, "qwen1.5-moe-a2.7b"), model::built_in("qwen1.5-moe-a2.7b"));
  EXPECT_EQ(read(qwen3_json, "qwen3-30b-a3b"), model::built_in("qwen3-30b-a3b"));
  EXPECT_EQ(read(olmoe_json, "olmoe-1b-7b"), model::built_in("olmoe-1b-7b"));
  EXPECT_EQ(read(deepseek_json, "deepseek-moe-16b"), model::built_in("deepseek-moe-16b"));
}

TEST(HuggingFaceExperts, SomeBlocksMayBeDense) {
  const auto dense = [](const std::string& json, std::string_view from, std::string_view to) {
    return read(replaced(replaced(json, from, to), "num_hidden_layers\": 48", "num_hidden_layers\": 6")).experts.dense_blocks;
  };
  EXPECT_EQ(dense(qwen3_json, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2"), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(dense(qwen3_json, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [5, 0, 5, 9]"), (std::vector<int>{0, 5}));
  EXPECT_EQ(read(replaced(qwen3_json, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2")).feed_forward, 6144);
  EXPECT_EQ(read(replaced(deepseek_json, "\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 3")).experts.dense_blocks,
            (std::vector<int>{0, 1, 2}));
}

TEST(HuggingFaceExperts, RefusesWhatCannotBe) {
  refused(mixtral_json, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9", "experts.per_token is 9", "8");
  refused(mixtral_json, "\"num_local_experts\": 8", "\"num_local_experts\": 0", "/num_local_experts: ", "at least 1");
  refused(qwen3_json, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 49", "/decoder_sparse_step: ", "without experts");
  refused(qwen3_json, "\"num_hidden_layers\": 48", "\"num_hidden_layers\": 2000000000", "/num_hidden_layers: expected at most 4096", "");
  refused(olmoe_json, "\"clip_qkv\": null", "\"clip_qkv\": 8.0", "/clip_qkv: ", "8");
  refused(deepseek_json, "\"n_shared_experts\": 2", "\"n_shared_experts\": 2000000000", "/n_shared_experts: ", "fewer");
  refused(deepseek_json, "\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 28", "/first_k_dense_replace: ", "without experts");
}

/// Its attention goes through a projection of keys and values: no built-in family has such costs.
TEST(HuggingFaceExperts, RefusesLatentAttentionByName) {
  for (const char* family : {"deepseek_v2", "deepseek_v3"})
    expect_refused([&] { read(text(R"({"model_type": ")", family, R"("})")); }, "/model_type: expected gpt2", "multi-head latent attention",
                   family);
}

TEST(HuggingFaceExperts, AreInPlanFiles) {
  for (const char* name : {"mixtral-8x7b", "qwen1.5-moe-a2.7b", "olmoe-1b-7b", "deepseek-moe-16b"}) {
    const auto plan = plan::even_plan(model::built_in(name), 64, 4, Precision::bf16, 2, 2, 1, 1);
    const auto json = plan_to_json(plan);
    EXPECT_NE(json.find("\"experts\": {\"count\": "), std::string::npos) << json;
    EXPECT_EQ(plan_from_json(json, "plan.json"), plan) << name;
  }
  const auto plan = plan::even_plan(model::built_in("deepseek-moe-16b"), 64, 4, Precision::bf16, 2, 2, 1, 1);
  const auto refused = [&](std::string_view from, std::string_view to, const char* what) {
    expect_refused([&] { plan_from_json(replaced(plan_to_json(plan), from, to), "plan.json"); }, "plan.json: /model", what);
  };
  refused("\"per_token\": 6", "\"per_token\": 65", "experts.per_token is 65");
  refused("\"dense_blocks\": [0]", "\"dense_blocks\": [28]", "dense_blocks has 28");
  refused("\"count\": 64", "\"number\": 64", "number");
}

}  // namespace
}  // namespace flotilla::files::hugging_face_experts_test
