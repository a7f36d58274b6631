#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/model/experts.hpp"
#include "flotilla/model/lora.hpp"

namespace flotilla::model {

enum class Activation {
  gelu_tanh,
  gelu,  ///< x times the normal distribution function of x (Hendrycks and Gimpel 2016), which gelu_tanh is close to
  relu,
  swiglu,  ///< silu(gate) * up: two matrices in, side by side in one tensor, gate first (Shazeer 2020)
  geglu,   ///< likewise with gelu_tanh(gate)
};
enum class NormPlacement { pre, post };  ///< norm before the sub-layer (GPT-2, most OPT) or after the sum (OPT-350M)
enum class NormKind {
  layer,  ///< (x - mean) / sqrt(variance + epsilon) * weight + bias
  rms,    ///< x / sqrt(mean of x^2 + epsilon) * weight (Zhang and Sennrich 2019)
};

/// Positions by rotation of queries and keys (Su et al. 2021), as Hugging Face's Llama lays it out: columns i and i + head_size / 2 of a
/// head are turned together, by position * theta^(-2i / head_size).
struct Rotary {
  double theta = 0;  ///< base of the angles; 0: no rotation, positions come from elsewhere
  int width = 0;     ///< leading columns of a head that are turned, and counted as head_size; 0: all
  /// Llama 3.1's stretching (Hugging Face's rope_type llama3): an angle that turns fewer than `low_frequency` times over
  /// `original_positions` is divided by `factor`, one that turns more than `high_frequency` times is kept, one between is mixed.
  double factor = 1;  ///< 1: none
  double low_frequency = 1, high_frequency = 4;
  int original_positions = 8192;
  bool linear = false;  ///< every angle is divided by `factor` instead (Chen et al. 2023, https://arxiv.org/abs/2306.15595)
  /// YaRN instead (Peng et al. 2023, https://arxiv.org/abs/2309.00071): what is mixed is ramped over the pairs of columns between those
  /// that turn `high_frequency` and `low_frequency` times over `original_positions`.
  bool yarn = false;
  double attention_factor = 0;  ///< of YaRN, that queries and keys are multiplied with; 0: 0.1 ln(factor) + 1
  /// Base of the angles in blocks with a window, where nothing is stretched; 0: they turn as all others do.
  double window_theta = 0;

  bool operator==(const Rotary&) const = default;
};

/// A transformer as data. A family is a way to fill this in; nothing else branches on the family's name.
///
/// Layers, numbered 0 … blocks+1: embedding, the blocks, head. Plans cut between layers.
struct Config {
  std::string name;  ///< "gpt2", "opt-350m", or the stem of a config.json
  /// "gpt2", "opt", "gpt_neo", "llama", "mistral", "qwen2", "qwen3", "gpt_neox", "bloom", "gemma2", "gemma3_text", "mixtral", "qwen2_moe",
  /// "qwen3_moe", "olmoe" or "deepseek": Hugging Face's model_type
  std::string family;
  int blocks = 0;
  int hidden = 0;
  int heads = 0;
  int key_value_heads = 0;  ///< each serves heads / key_value_heads query heads (Ainslie et al. 2023); 0: every head has its own
  int head_width = 0;       ///< columns of a head; 0: hidden / heads
  int feed_forward = 0;
  int vocabulary = 0;
  int positions = 0;        ///< longest sequence
  int position_offset = 0;  ///< rows before position 0 in the position table (OPT: 2)
  int embedding_width = 0;  ///< width of the token embedding; other than `hidden`: projected in and out (OPT-350M: 512)
  Activation activation = Activation::gelu_tanh;
  NormPlacement norm = NormPlacement::pre;
  NormKind norm_kind = NormKind::layer;
  bool final_norm = true;  ///< a norm before the head (none in OPT-350M)
  double norm_epsilon = 1e-5;
  double dropout = 0;            ///< after embedding and after each sub-layer
  double attention_dropout = 0;  ///< on attention probabilities
  double init_std = 0.02;
  bool scaled_residual_init = false;  ///< GPT-2: the two output matrices of a block use init_std / sqrt(2 * blocks)
  Rotary rotary = {};
  /// Scores get head_slope(head, heads) * (position of the key - that of the query) (Press et al. 2022); nothing else knows of positions.
  bool alibi = false;
  bool embedding_norm = false;    ///< a norm of the embedded tokens
  bool scaled_embedding = false;  ///< embedded tokens are multiplied with sqrt(hidden), rounded to the element type
  /// Norms multiply with 1 + weight, and weights start at zero; of kind rms only.
  bool norm_offset = false;
  /// What a sub-layer puts out is normed before it is added, beside the norm of its input.
  bool output_norms = false;
  /// The feed-forward and attention read the same input: both are added to it (Wang and Komatsuzaki 2021); norms stand before them.
  bool parallel_residual = false;
  /// Rows of qkv: head after head its query, its key, its value, as where heads share keys; else all queries, all keys, all values.
  bool interleaved_qkv = false;
  /// Keys that a query sees, itself the last of them; 0: all up to itself. Block l uses entry l modulo their number; none: all zero.
  std::vector<int> windows = {};
  /// Queries and keys of every head are normed before they are rotated, by NormKind::rms over the head's columns (Henry et al. 2020).
  bool query_key_norms = false;
  /// One such norm over the columns of all heads instead, of queries and of keys (OLMoE); forecast only.
  bool wide_head_norms = false;
  bool scaled_scores = true;  ///< scores are divided by sqrt(score_width) (not in GPT-Neo)
  double score_width = 0;     ///< 0: head_size
  double score_cap = 0;       ///< scores become cap * tanh(score / cap) (Bello et al. 2016, https://arxiv.org/abs/1611.09940); 0: none
  double logit_cap = 0;       ///< likewise the head's logits
  bool qkv_bias = true, attention_output_bias = true, feed_forward_bias = true;
  bool tied_head = true;  ///< the head multiplies with the token embedding; else with a table of its own, head.word
  /// Patterns (* and ?) of the names of tensors that are not trained: they have no gradient and no optimizer state.
  std::vector<std::string> frozen = {};
  Lora lora = {};        ///< where it is on, adapters alone are trained
  Experts experts = {};  ///< where they are on, in place of the feed-forward layer of every block but some

  bool operator==(const Config&) const = default;

  /// The same model without adapters, all of it trained.
  Config fully_trained() const {
    Config all = *this;
    all.frozen.clear();
    all.lora = {};
    return all;
  }
  int layers() const { return blocks + 2; }
  int head_size() const { return head_width > 0 ? head_width : hidden / heads; }
  /// Columns of all heads: of the output product's input.
  std::int64_t attention_width() const { return std::int64_t{heads} * head_size(); }
  /// Heads of keys and values, each with its queries: what tensor parallelism deals, so that every query meets its keys.
  int groups() const { return key_value_heads > 0 ? key_value_heads : heads; }
  int queries_per_group() const { return heads / groups(); }
  bool shares_keys() const { return groups() != heads; }
  bool grouped_qkv() const { return shares_keys() || interleaved_qkv; }
  bool rotates() const { return rotary.theta > 0; }
  int rotated_columns() const { return rotary.width > 0 ? rotary.width : head_size(); }
  /// Whether a block turns by Rotary::window_theta.
  bool turns_by_window(int block) const { return rotary.window_theta > 0 && window(block) > 0; }
  /// What products of queries and keys are multiplied with.
  double score_scale() const;
  bool has_position_table() const { return !rotates() && !alibi; }
  bool gated() const { return activation == Activation::swiglu || activation == Activation::geglu; }
  int window(int block) const { return windows.empty() ? 0 : windows[static_cast<std::size_t>(block) % windows.size()]; }
  bool projects() const { return embedding_width != hidden; }
  bool is_embedding(int layer) const { return layer == 0; }
  bool is_head(int layer) const { return layer == blocks + 1; }
  bool is_block(int layer) const { return layer > 0 && layer <= blocks; }
  bool has_experts(int layer) const { return is_block(layer) && experts.in_block(layer - 1); }
  int expert_blocks() const { return experts.on() ? blocks - static_cast<int>(experts.dense_blocks.size()) : 0; }
  bool has_dense_blocks() const { return expert_blocks() < blocks; }
};

/// Built-in models by name, Hugging Face's where they exist: gpt2, gpt2-medium, gpt2-large, gpt2-xl, opt-125m, opt-350m, opt-1.3b,
/// opt-2.7b, opt-6.7b, opt-13b, opt-30b, opt-66b, gpt-neo-125m, gpt-neo-1.3b, gpt-neo-2.7b, llama-2-7b, llama-2-13b, llama-2-70b,
/// llama-3-8b, llama-3-70b, llama-3.1-8b, llama-3.1-70b, llama-3.2-1b, llama-3.2-3b, qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b, qwen3-14b,
/// qwen3-32b, pythia-70m, pythia-160m, pythia-410m, pythia-1b, pythia-1.4b, pythia-2.8b, pythia-6.9b, pythia-12b, gpt-neox-20b, bloom-560m,
/// bloom-1b1, bloom-1b7, bloom-3b, bloom-7b1, bloom-176b, gemma-2-2b, gemma-2-9b, gemma-2-27b, gemma-3-270m, gemma-3-1b;
/// of experts, forecast only: mixtral-8x7b, mixtral-8x22b, qwen1.5-moe-a2.7b, qwen3-30b-a3b, qwen3-235b-a22b, olmoe-1b-7b,
/// deepseek-moe-16b; and small byte-level ones (vocabulary 256): gpt2-tiny, gpt2-mini, opt-tiny, opt-post-tiny (post-norm and projected
/// embedding, like OPT-350M), gpt-neo-tiny (a window of 8 tokens), llama-tiny (six query heads on three of keys and values, untied),
/// qwen3-tiny (the same with wider heads and their norms), pythia-tiny, bloom-tiny, gemma2-tiny (capped scores and logits, a window of 8
/// tokens by turns), gemma3-tiny (head norms, two kinds of angles). Names compare case-insensitively. Throws Error{bad_input} naming the
/// nearest known name.
Config built_in(std::string_view name);
std::vector<std::string> built_in_names();

/// ALiBi's slope of a head: of n heads, n a power of two, 2^(-8 (head + 1) / n); of others, those of the power of two below and then every
/// second one of twice as many.
double head_slope(int head, int heads);

/// What the times of a model's operations depend on, but for sequences, precision and tensor degree: its shape, dropout and the sequence
/// length, in words.
std::string fingerprint(const Config&, int length);
/// The part of a fingerprint that says the shape.
std::string_view shape_of(std::string_view fingerprint);

/// The largest tensor-parallel degree whose every member has something of every axis: groups of heads, columns (of an expert, too), rows
/// of the token embedding.
int largest_tensor_parallel(const Config&);
/// What sets it, in words: "the number of heads", "the number of key and value heads", "the feed-forward columns" or "the vocabulary".
std::string_view limit_of_tensor_parallel(const Config&);

/// One line saying which of the frozen patterns matches no tensor, and what is like it, or that they leave nothing to train; nothing where
/// they are sound.
std::optional<std::string> wrong_with_frozen(const Config&);

/// What of the model is forecast, but executed by nothing of ours, in words: "a mixture of experts"; nothing where all of it is.
std::optional<std::string> forecast_only(const Config&);
/// Throws Error{bad_input} where forecast_only() says something. `where` leads the message.
void require_executable(const Config&, std::string_view where);

/// Throws Error{bad_input} saying which field is impossible and what it must be. `where` leads the message (a file, or an option).
void check(const Config&, std::string_view where);

}  // namespace flotilla::model
