#include <algorithm>
#include <cstdint>

#include "flotilla/base/foreign_text.hpp"
#include "hugging_face_keys.hpp"

namespace flotilla::files::config_json {
namespace {

/// So many layers of `columns` side by side.
int times(const Keys& keys, std::string_view key, int count, int columns) {
  const std::int64_t all = std::int64_t{count} * columns;
  if (all > INT32_MAX) keys.refuse(key, text("expected fewer, got ", count));
  return static_cast<int>(all);
}

/// Where every block has experts, nothing reads the columns of dense ones; written as those of an expert, like built-in models.
void forget_dense(model::Config& c) {
  if (!c.has_dense_blocks()) c.feed_forward = c.experts.width;
}

/// A key that says how many blocks are dense, or which, needs a list of them.
void require_listed(const Keys& keys, const model::Config& c) {
  if (c.blocks > most_listed_blocks) keys.refuse("num_hidden_layers", text("expected at most ", most_listed_blocks, ", got ", c.blocks));
}

/// Experts in every `decoder_sparse_step`-th block, but in none of `mlp_only_layers`.
void qwen_experts(const Keys& keys, model::Config& c, int width, int count, int per_token) {
  require_listed(keys, c);
  model::Experts& x = c.experts;
  x.width = keys.integer("moe_intermediate_size", width);
  x.count = keys.integer("num_experts", count);
  x.per_token = keys.integer("num_experts_per_tok", per_token);
  const int step = keys.integer("decoder_sparse_step", 1);
  std::vector<int> listed;
  if (const auto blocks = keys.member("mlp_only_layers"))
    for (const Json& block : blocks->items()) listed.push_back(block.as_int(0));
  std::ranges::sort(listed);
  for (int block = 0; block < c.blocks; ++block)
    if ((block + 1) % step != 0 || std::ranges::binary_search(listed, block)) x.dense_blocks.push_back(block);
  if (c.expert_blocks() == 0) keys.refuse("decoder_sparse_step", "leaves every layer without experts");
  forget_dense(c);
}

}  // namespace

void mixtral(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {14336, 32000, 131072, 8});
  const int window = keys.integer("sliding_window", 0);
  if (window > 0) c.windows = {window};
  c.experts.count = keys.integer("num_local_experts", 8);
  c.experts.per_token = keys.integer("num_experts_per_tok", 2);
  c.experts.width = c.feed_forward;
}

/// A layer for every token beside the experts, scaled by a gate.
void qwen2_moe(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {5632, 151936, 32768, 16, 0, 24, 2048, 16});
  c.qkv_bias = keys.flag("qkv_bias", true);
  c.windows = qwen2_windows(keys, c.blocks);
  c.experts.shared_width = keys.integer("shared_expert_intermediate_size", 5632);
  c.experts.shared_gate = true;
  qwen_experts(keys, c, 1408, 60, 4);
}

void qwen3_moe(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {6144, 151936, 32768, 4, 0, 24, 2048, 32});
  c.qkv_bias = c.attention_output_bias = keys.flag("attention_bias", false);
  c.query_key_norms = true;
  c.windows = qwen2_windows(keys, c.blocks);
  qwen_experts(keys, c, 768, 128, 8);
}

/// Norms over the columns of all heads.
void olmoe(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {2048, 50304, 4096, 0, 0, 16, 2048, 16});
  c.norm_epsilon = keys.number("rms_norm_eps", 1e-5);
  c.qkv_bias = c.attention_output_bias = keys.flag("attention_bias", false);
  c.query_key_norms = c.wide_head_norms = true;
  if (!keys.is_null("clip_qkv")) keys.require_number("clip_qkv", 0, 0);
  c.experts.count = keys.integer("num_experts", 64);
  c.experts.per_token = keys.integer("num_experts_per_tok", 8);
  c.experts.width = c.feed_forward;
}

/// DeepSeekMoE (Dai et al. 2024): the first blocks are dense, the others have shared experts that every token goes through.
void deepseek(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {11008, 102400, 4096, 0});
  c.qkv_bias = c.attention_output_bias = keys.flag("attention_bias", false);
  require_listed(keys, c);
  model::Experts& x = c.experts;
  x.count = keys.integer("n_routed_experts", 64);
  x.per_token = keys.integer("num_experts_per_tok", 6);
  x.width = keys.integer("moe_intermediate_size", 1407);
  x.shared_width = times(keys, "n_shared_experts", keys.integer("n_shared_experts", 0, 0), x.width);
  const int dense = keys.integer("first_k_dense_replace", 0, 0), step = keys.integer("moe_layer_freq", 1);
  for (int block = 0; block < c.blocks; ++block)
    if (block < dense || block % step != 0) x.dense_blocks.push_back(block);
  if (c.expert_blocks() == 0) keys.refuse("first_k_dense_replace", "leaves every layer without experts");
  forget_dense(c);
}

}  // namespace flotilla::files::config_json
