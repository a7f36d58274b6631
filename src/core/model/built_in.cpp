#include <algorithm>
#include <cctype>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::model {
namespace {

struct Size {
  const char* name;
  int blocks, hidden, heads;
};

Config gpt2(const Size& size, int vocabulary, int positions, double dropout) {
  Config c;
  c.name = size.name;
  c.family = "gpt2";
  c.blocks = size.blocks;
  c.hidden = c.embedding_width = size.hidden;
  c.heads = size.heads;
  c.feed_forward = 4 * size.hidden;
  c.vocabulary = vocabulary;
  c.positions = positions;
  c.activation = Activation::gelu_tanh;
  c.dropout = c.attention_dropout = dropout;
  c.scaled_residual_init = true;
  return c;
}

Config opt(const Size& size, int vocabulary, int positions, double dropout) {
  Config c = gpt2(size, vocabulary, positions, dropout);
  c.family = "opt";
  c.position_offset = 2;
  c.activation = Activation::relu;
  c.attention_dropout = 0;
  c.scaled_residual_init = false;
  return c;
}

/// As OPT-350M differs from its sisters: the norm after the sum, none before the head, and a narrower token embedding.
Config post_norm(Config c, int embedding_width) {
  c.norm = NormPlacement::post;
  c.final_norm = false;
  c.embedding_width = embedding_width;
  return c;
}

/// Attention by turns over everything and over a window.
Config gpt_neo(const Size& size, int vocabulary, int positions, int window) {
  Config c = gpt2(size, vocabulary, positions, 0);
  c.family = "gpt_neo";
  c.scaled_residual_init = false;
  c.windows = {0, window};
  c.scaled_scores = false;
  c.qkv_bias = false;
  return c;
}

struct LlamaSize {
  Size size;
  int key_value_heads, feed_forward;
};

Config llama(const LlamaSize& s, int vocabulary, int positions, double theta) {
  Config c = gpt2(s.size, vocabulary, positions, 0);
  c.family = "llama";
  c.scaled_residual_init = false;
  c.key_value_heads = s.key_value_heads == s.size.heads ? 0 : s.key_value_heads;
  c.feed_forward = s.feed_forward;
  c.activation = Activation::swiglu;
  c.norm_kind = NormKind::rms;
  c.rotary.theta = theta;
  c.qkv_bias = c.attention_output_bias = c.feed_forward_bias = false;
  c.tied_head = false;
  return c;
}

/// Qwen3: heads wider than their share of the residual stream, and their norms.
Config qwen3(const LlamaSize& s, int vocabulary, int positions, int head_width, bool tied) {
  Config c = llama(s, vocabulary, positions, 1e6);
  c.family = "qwen3";
  c.norm_epsilon = 1e-6;
  c.head_width = head_width == s.size.hidden / s.size.heads ? 0 : head_width;
  c.query_key_norms = true;
  c.tied_head = tied;
  return c;
}

/// In every block experts, as large as the feed-forward layers of the size, of which a token goes through some.
Config with_experts(Config c, const char* family, int count, int per_token) {
  c.family = family;
  c.experts.count = count;
  c.experts.per_token = per_token;
  c.experts.width = c.feed_forward;
  return c;
}

struct NeoxSize {
  Size size;
  int vocabulary;
};

/// GPT-NeoX and Pythia: a quarter of each head is turned; norms and sub-layers side by side.
Config gpt_neox(const NeoxSize& s, int positions, Activation activation) {
  Config c = gpt2(s.size, s.vocabulary, positions, 0);
  c.family = "gpt_neox";
  c.scaled_residual_init = false;
  c.activation = activation;
  c.rotary.theta = 1e4;
  c.rotary.width = c.head_size() / 4;
  c.parallel_residual = c.interleaved_qkv = true;
  c.tied_head = false;
  return c;
}

/// No table of positions: scores know how far away a key is.
Config bloom(const Size& size, int vocabulary, int positions) {
  Config c = gpt2(size, vocabulary, positions, 0);
  c.family = "bloom";
  c.scaled_residual_init = false;
  c.alibi = c.embedding_norm = c.interleaved_qkv = true;
  return c;
}

/// Norms with an offset before and behind sub-layers, GeGLU, a scaled embedding that is tied to the head.
Config gemma(const LlamaSize& s, int vocabulary, int positions, int head_width) {
  Config c = llama(s, vocabulary, positions, 1e4);
  c.norm_epsilon = 1e-6;
  c.activation = Activation::geglu;
  c.head_width = head_width == s.size.hidden / s.size.heads ? 0 : head_width;
  c.norm_offset = c.output_norms = c.scaled_embedding = c.tied_head = true;
  return c;
}

/// A window in every second block; scores and logits are capped.
Config gemma2(const LlamaSize& s, int vocabulary, int positions, int head_width, double score_width, int window) {
  Config c = gemma(s, vocabulary, positions, head_width);
  c.family = "gemma2";
  c.windows = {window, 0};
  c.score_width = score_width == c.head_size() ? 0 : score_width;
  c.score_cap = 50;
  c.logit_cap = 30;
  return c;
}

/// Five blocks with a window and angles of their own to one without; heads are normed.
Config gemma3(const LlamaSize& s, int vocabulary, int positions, int head_width, int window) {
  Config c = gemma(s, vocabulary, positions, head_width);
  c.family = "gemma3_text";
  c.rotary.theta = 1e6;
  c.rotary.window_theta = 1e4;
  c.query_key_norms = true;
  c.windows = {window, window, window, window, window, 0};
  return c;
}

/// Llama 3.1 and 3.2: the angles of Llama 3, stretched.
Config stretched(Config c, double factor, bool tied) {
  c.rotary.factor = factor;
  c.tied_head = tied;
  return c;
}

void add_gpt_neo(std::vector<Config>& all) {
  for (const Size& s : {Size{"gpt-neo-125m", 12, 768, 12}, Size{"gpt-neo-1.3b", 24, 2048, 16}, Size{"gpt-neo-2.7b", 32, 2560, 20}})
    all.push_back(gpt_neo(s, 50257, 2048, 256));
}

/// Shapes from the models' config.json.
void add_llama(std::vector<Config>& all) {
  for (const LlamaSize& s : {LlamaSize{{"llama-2-7b", 32, 4096, 32}, 32, 11008}, LlamaSize{{"llama-2-13b", 40, 5120, 40}, 40, 13824},
                             LlamaSize{{"llama-2-70b", 80, 8192, 64}, 8, 28672}})
    all.push_back(llama(s, 32000, 4096, 1e4));
  for (const LlamaSize& s : {LlamaSize{{"llama-3-8b", 32, 4096, 32}, 8, 14336}, LlamaSize{{"llama-3-70b", 80, 8192, 64}, 8, 28672}})
    all.push_back(llama(s, 128256, 8192, 5e5));
  for (const LlamaSize& s : {LlamaSize{{"llama-3.1-8b", 32, 4096, 32}, 8, 14336}, LlamaSize{{"llama-3.1-70b", 80, 8192, 64}, 8, 28672}})
    all.push_back(stretched(llama(s, 128256, 131072, 5e5), 8, false));
  for (const LlamaSize& s : {LlamaSize{{"llama-3.2-1b", 16, 2048, 32}, 8, 8192}, LlamaSize{{"llama-3.2-3b", 28, 3072, 24}, 8, 8192}})
    all.push_back(stretched(llama(s, 128256, 131072, 5e5), 32, true));
}

/// Likewise.
void add_qwen3(std::vector<Config>& all) {
  constexpr int vocabulary = 151936, positions = 40960, head = 128;
  for (const LlamaSize& s : {LlamaSize{{"qwen3-0.6b", 28, 1024, 16}, 8, 3072}, LlamaSize{{"qwen3-1.7b", 28, 2048, 16}, 8, 6144},
                             LlamaSize{{"qwen3-4b", 36, 2560, 32}, 8, 9728}})
    all.push_back(qwen3(s, vocabulary, positions, head, true));
  for (const LlamaSize& s : {LlamaSize{{"qwen3-8b", 36, 4096, 32}, 8, 12288}, LlamaSize{{"qwen3-14b", 40, 5120, 40}, 8, 17408},
                             LlamaSize{{"qwen3-32b", 64, 5120, 64}, 8, 25600}})
    all.push_back(qwen3(s, vocabulary, positions, head, false));
}

void add_gpt_neox(std::vector<Config>& all) {
  for (const NeoxSize& s : {NeoxSize{{"pythia-70m", 6, 512, 8}, 50304}, NeoxSize{{"pythia-160m", 12, 768, 12}, 50304},
                            NeoxSize{{"pythia-410m", 24, 1024, 16}, 50304}, NeoxSize{{"pythia-1b", 16, 2048, 8}, 50304},
                            NeoxSize{{"pythia-1.4b", 24, 2048, 16}, 50304}, NeoxSize{{"pythia-2.8b", 32, 2560, 32}, 50304},
                            NeoxSize{{"pythia-6.9b", 32, 4096, 32}, 50432}, NeoxSize{{"pythia-12b", 36, 5120, 40}, 50688}})
    all.push_back(gpt_neox(s, 2048, Activation::gelu));
  all.push_back(gpt_neox({{"gpt-neox-20b", 44, 6144, 64}, 50432}, 2048, Activation::gelu_tanh));
}

void add_bloom(std::vector<Config>& all) {
  for (const Size& s : {Size{"bloom-560m", 24, 1024, 16}, Size{"bloom-1b1", 24, 1536, 16}, Size{"bloom-1b7", 24, 2048, 16},
                        Size{"bloom-3b", 30, 2560, 32}, Size{"bloom-7b1", 30, 4096, 32}, Size{"bloom-176b", 70, 14336, 112}})
    all.push_back(bloom(s, 250880, 2048));
}

/// Shapes from the models' config.json.
void add_gemma(std::vector<Config>& all) {
  all.push_back(gemma2({{"gemma-2-2b", 26, 2304, 8}, 4, 9216}, 256000, 8192, 256, 256, 4096));
  all.push_back(gemma2({{"gemma-2-9b", 42, 3584, 16}, 8, 14336}, 256000, 8192, 256, 256, 4096));
  all.push_back(gemma2({{"gemma-2-27b", 46, 4608, 32}, 16, 36864}, 256000, 8192, 128, 144, 4096));
  all.push_back(gemma3({{"gemma-3-270m", 18, 640, 4}, 1, 2048}, 262144, 32768, 256, 512));
  all.push_back(gemma3({{"gemma-3-1b", 26, 1152, 4}, 1, 6912}, 262144, 32768, 256, 512));
}

/// A layer for every token beside the experts.
Config sharing(Config c, int columns, bool gate) {
  c.experts.shared_width = columns;
  c.experts.shared_gate = gate;
  return c;
}

/// Shapes from the models' config.json, and of DeepSeekMoE from its paper (Dai et al. 2024), too; forecast only.
void add_experts(std::vector<Config>& all) {
  all.push_back(with_experts(llama({{"mixtral-8x7b", 32, 4096, 32}, 8, 14336}, 32000, 32768, 1e6), "mixtral", 8, 2));
  all.push_back(with_experts(llama({{"mixtral-8x22b", 56, 6144, 48}, 8, 16384}, 32000, 65536, 1e6), "mixtral", 8, 2));
  Config qwen2 = with_experts(llama({{"qwen1.5-moe-a2.7b", 24, 2048, 16}, 16, 1408}, 151936, 8192, 1e6), "qwen2_moe", 60, 4);
  qwen2.qkv_bias = true;
  qwen2.norm_epsilon = 1e-6;
  all.push_back(sharing(qwen2, 5632, true));
  for (const LlamaSize& s : {LlamaSize{{"qwen3-30b-a3b", 48, 2048, 32}, 4, 768}, LlamaSize{{"qwen3-235b-a22b", 94, 4096, 64}, 4, 1536}})
    all.push_back(with_experts(qwen3(s, 151936, 40960, 128, false), "qwen3_moe", 128, 8));
  Config olmoe = with_experts(llama({{"olmoe-1b-7b", 16, 2048, 16}, 16, 1024}, 50304, 4096, 1e4), "olmoe", 64, 8);
  olmoe.query_key_norms = olmoe.wide_head_norms = true;
  all.push_back(olmoe);
  Config deepseek = with_experts(llama({{"deepseek-moe-16b", 28, 2048, 16}, 16, 1408}, 102400, 4096, 1e4), "deepseek", 64, 6);
  deepseek.norm_epsilon = 1e-6;
  deepseek.feed_forward = 10944;
  deepseek.experts.dense_blocks = {0};
  all.push_back(sharing(deepseek, 2 * 1408, false));
}

std::vector<Config> make_built_ins() {
  std::vector<Config> all;
  for (const Size& s :
       {Size{"gpt2", 12, 768, 12}, Size{"gpt2-medium", 24, 1024, 16}, Size{"gpt2-large", 36, 1280, 20}, Size{"gpt2-xl", 48, 1600, 25}})
    all.push_back(gpt2(s, 50257, 1024, 0.1));
  for (const Size& s :
       {Size{"opt-125m", 12, 768, 12}, Size{"opt-350m", 24, 1024, 16}, Size{"opt-1.3b", 24, 2048, 32}, Size{"opt-2.7b", 32, 2560, 32},
        Size{"opt-6.7b", 32, 4096, 32}, Size{"opt-13b", 40, 5120, 40}, Size{"opt-30b", 48, 7168, 56}, Size{"opt-66b", 64, 9216, 72}})
    all.push_back(opt(s, 50272, 2048, 0.1));
  add_gpt_neo(all);
  add_llama(all);
  add_qwen3(all);
  add_gpt_neox(all);
  add_bloom(all);
  add_gemma(all);
  add_experts(all);
  for (Config& c : all)
    if (c.name == "opt-350m") c = post_norm(c, 512);
  all.push_back(gpt2({"gpt2-tiny", 2, 64, 4}, 256, 256, 0));
  all.push_back(gpt2({"gpt2-mini", 4, 128, 8}, 256, 256, 0));
  all.push_back(opt({"opt-tiny", 2, 64, 4}, 256, 256, 0));
  all.push_back(post_norm(opt({"opt-post-tiny", 2, 64, 4}, 256, 256, 0), 32));
  all.push_back(gpt_neo({"gpt-neo-tiny", 2, 64, 4}, 256, 256, 8));
  all.push_back(llama({{"llama-tiny", 2, 96, 6}, 3, 256}, 256, 256, 1e4));
  all.push_back(qwen3({{"qwen3-tiny", 2, 96, 6}, 3, 256}, 256, 256, 24, false));
  all.push_back(gpt_neox({{"pythia-tiny", 2, 64, 4}, 256}, 256, Activation::gelu));
  all.push_back(bloom({"bloom-tiny", 2, 64, 4}, 256, 256));
  all.push_back(gemma2({{"gemma2-tiny", 2, 96, 6}, 3, 256}, 256, 256, 24, 24, 8));
  all.push_back(gemma3({{"gemma3-tiny", 6, 96, 6}, 3, 256}, 256, 256, 24, 8));
  return all;
}

const std::vector<Config>& built_ins() {
  static const std::vector<Config> all = make_built_ins();
  return all;
}

std::string lower_case(std::string_view name) {
  std::string lower{name};
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

Config built_in(std::string_view name) {
  const std::string wanted = lower_case(name);
  const Config* nearest = nullptr;
  for (const Config& c : built_ins()) {
    if (c.name == wanted) return c;
    if (!nearest || edit_distance(wanted, c.name) < edit_distance(wanted, nearest->name)) nearest = &c;
  }
  throw Error{ErrorKind::bad_input, text(in_quotes(name), " is not a built-in model; the nearest known name is ", in_quotes(nearest->name),
                                         " (a path to a Hugging Face config.json also works)")};
}

std::vector<std::string> built_in_names() {
  std::vector<std::string> names;
  for (const Config& c : built_ins()) names.push_back(c.name);
  return names;
}

}  // namespace flotilla::model
