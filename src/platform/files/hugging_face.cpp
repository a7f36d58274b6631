#include "flotilla/files/hugging_face.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/look.hpp"
#include "hugging_face_keys.hpp"

namespace flotilla::files {
using namespace config_json;

namespace {

model::Activation activation(const Keys& keys, std::string_view key, std::string_view otherwise) {
  const std::string name = keys.name(key, otherwise);
  if (name == "relu") return model::Activation::relu;
  if (name == "gelu") return model::Activation::gelu;
  if (name != "gelu_new" && name != "gelu_fast" && name != "gelu_pytorch_tanh")
    keys.refuse(key, text("expected gelu, gelu_new, gelu_fast, gelu_pytorch_tanh or relu, got ", in_quotes(name)));
  return model::Activation::gelu_tanh;
}

int four_times(int hidden) { return static_cast<int>(std::min<std::int64_t>(std::int64_t{4} * hidden, INT32_MAX)); }

void gpt2(const Keys& keys, model::Config& c) {
  c.blocks = keys.integer("n_layer", 12);
  c.hidden = c.embedding_width = keys.integer("n_embd", 768);
  c.heads = keys.integer("n_head", 12);
  c.feed_forward = keys.integer("n_inner", four_times(c.hidden));
  c.vocabulary = keys.integer("vocab_size", 50257);
  c.positions = keys.integer("n_positions", 1024);
  c.activation = activation(keys, "activation_function", "gelu_new");
  c.norm_epsilon = keys.number("layer_norm_epsilon", 1e-5);
  c.dropout = keys.number("resid_pdrop", 0.1);
  if (keys.number("embd_pdrop", 0.1) != c.dropout) keys.refuse("embd_pdrop", text("expected ", c.dropout, ", the value of resid_pdrop"));
  c.attention_dropout = keys.number("attn_pdrop", 0.1);
  c.init_std = keys.number("initializer_range", 0.02);
  c.scaled_residual_init = true;
  keys.require_flag("tie_word_embeddings", true, true);
  keys.require_flag("scale_attn_weights", true, true);
  keys.require_flag("scale_attn_by_inverse_layer_idx", false, false);
  keys.require_flag("add_cross_attention", false, false);
}

void opt(const Keys& keys, model::Config& c) {
  c.blocks = keys.integer("num_hidden_layers", 12);
  c.hidden = keys.integer("hidden_size", 768);
  c.heads = keys.integer("num_attention_heads", 12);
  c.feed_forward = keys.integer("ffn_dim", 3072);
  c.vocabulary = keys.integer("vocab_size", 50272);
  c.positions = keys.integer("max_position_embeddings", 2048);
  c.position_offset = 2;
  c.embedding_width = keys.integer("word_embed_proj_dim", c.hidden);
  c.activation = activation(keys, "activation_function", "relu");
  const bool norm_first = keys.flag("do_layer_norm_before", true);
  c.norm = norm_first ? model::NormPlacement::pre : model::NormPlacement::post;
  c.final_norm = norm_first && !keys.flag("_remove_final_layer_norm", false);
  c.dropout = keys.number("dropout", 0.1);
  c.attention_dropout = keys.number("attention_dropout", 0);
  c.init_std = keys.number("init_std", 0.02);
  keys.require_flag("tie_word_embeddings", true, true);
  keys.require_flag("enable_bias", true, true);
  keys.require_flag("layer_norm_elementwise_affine", true, true);
  keys.require_number("layerdrop", 0, 0);
}

/// As few as say all of them; none where no block has a window.
std::vector<int> shortest_period(std::vector<int> all) {
  std::size_t period = 1;
  while (!std::equal(all.begin() + static_cast<std::ptrdiff_t>(period), all.end(), all.begin())) ++period;
  all.resize(period);
  return all == std::vector<int>{0} ? std::vector<int>{} : all;
}

/// attention_types: [[["global", "local"], 12]] is twelve times these two. Returns the windows of the blocks, as few as say it.
std::vector<int> windows(const Keys& keys, int blocks, int window) {
  if (blocks > most_listed_blocks) keys.refuse("num_layers", text("expected at most ", most_listed_blocks, ", got ", blocks));
  std::vector<int> all;
  const auto types = keys.member("attention_types");
  const auto add = [&](const Json& kind) {
    const std::string name = kind.as_string();
    if (name != "global" && name != "local") kind.refuse(text("expected global or local, got ", in_quotes(name)));
    all.push_back(name == "local" ? window : 0);
  };
  for (const Json& entry : types ? types->items() : std::vector<Json>{}) {
    if (entry.size() != 2) entry.refuse("expected a list of kinds and how often they follow one another");
    const auto kinds = entry.items()[0].items();
    for (int times = entry.items()[1].as_int(1, blocks); times > 0 && static_cast<int>(all.size()) <= blocks; --times)
      for (const Json& kind : kinds) add(kind);
  }
  if (!types)
    for (int block = 0; block < blocks; ++block) all.push_back(block % 2 == 1 ? window : 0);
  if (static_cast<int>(all.size()) != blocks)
    keys.refuse("attention_types", text("expected kinds of attention for the ", blocks, " layers of num_layers"));
  return shortest_period(std::move(all));
}

void gpt_neo(const Keys& keys, model::Config& c) {
  c.blocks = keys.integer("num_layers", 24);
  c.hidden = c.embedding_width = keys.integer("hidden_size", 2048);
  c.heads = keys.integer("num_heads", 16);
  c.feed_forward = keys.integer("intermediate_size", four_times(c.hidden));
  c.vocabulary = keys.integer("vocab_size", 50257);
  c.positions = keys.integer("max_position_embeddings", 2048);
  c.activation = activation(keys, "activation_function", "gelu_new");
  c.norm_epsilon = keys.number("layer_norm_epsilon", 1e-5);
  c.dropout = keys.number("resid_dropout", 0);
  if (keys.number("embed_dropout", 0) != c.dropout)
    keys.refuse("embed_dropout", text("expected ", c.dropout, ", the value of resid_dropout"));
  c.attention_dropout = keys.number("attention_dropout", 0);
  c.init_std = keys.number("initializer_range", 0.02);
  c.windows = windows(keys, c.blocks, keys.integer("window_size", 256));
  c.scaled_scores = false;
  c.qkv_bias = false;
  keys.require_flag("tie_word_embeddings", true, true);
}

// Without these numbers there is no model: transformers has no defaults for them, and those of one model are not another's.
void stretch_linearly(const Keys& scaling, model::Rotary& r, std::string_view what) {
  scaling.require_known({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor"}, what);
  r.factor = scaling.must_have("factor", what).number("factor", 0);
  r.linear = true;
}

void stretch_as_llama3(const Keys& scaling, model::Rotary& r, std::string_view what) {
  scaling.require_known({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "low_freq_factor", "high_freq_factor",
                         "original_max_position_embeddings"},
                        what);
  r.factor = scaling.must_have("factor", what).number("factor", 0);
  r.low_frequency = scaling.must_have("low_freq_factor", what).number("low_freq_factor", 0);
  r.high_frequency = scaling.must_have("high_freq_factor", what).number("high_freq_factor", 0);
  r.original_positions = scaling.must_have("original_max_position_embeddings", what).integer("original_max_position_embeddings", 0);
}

/// As transformers 5 reads it: the stated factor counts, whatever max_position_embeddings is. The betas have defaults there.
void stretch_by_yarn(const Keys& scaling, model::Rotary& r, std::string_view what) {
  scaling.require_known({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "beta_fast", "beta_slow", "attention_factor",
                         "truncate", "original_max_position_embeddings"},
                        what);
  r.factor = scaling.must_have("factor", what).number("factor", 0);
  r.original_positions = scaling.must_have("original_max_position_embeddings", what).integer("original_max_position_embeddings", 0);
  r.low_frequency = scaling.number("beta_slow", 1);
  r.high_frequency = scaling.number("beta_fast", 32);
  r.attention_factor = scaling.number("attention_factor", 0);
  scaling.require_flag("truncate", true, true);
  r.yarn = true;
}

/// One object that says how blocks turn.
void read_rope(const Json& object, model::Rotary& r, double* turned = nullptr) {
  const Keys scaling{object};
  r.theta = scaling.number("rope_theta", r.theta);
  const char* kind_key = object.has("rope_type") ? "rope_type" : "type";
  const std::string kind = scaling.name(kind_key, "default"), what = text("rope_type ", kind);
  if (turned)
    *turned = scaling.number("partial_rotary_factor", *turned);
  else
    scaling.require_number("partial_rotary_factor", 1, 1);
  if (kind == "default")
    scaling.require_known({kind_key, "type", "rope_theta", "partial_rotary_factor"}, what);
  else if (kind == "linear")
    stretch_linearly(scaling, r, what);
  else if (kind == "llama3")
    stretch_as_llama3(scaling, r, what);
  else if (kind == "yarn")
    stretch_by_yarn(scaling, r, what);
  else
    scaling.refuse(kind_key, text("expected default, linear, llama3 or yarn, got ", in_quotes(kind)));
}

/// Of two that differ, one would be dropped.
void require_one_rope(const Keys& keys) {
  if (keys.member("rope_scaling") && keys.member("rope_parameters"))
    keys.refuse("rope_scaling", "expected this or rope_parameters, not both; leave one out");
}

/// `rope_parameters` since transformers 5; before, `rope_theta` and `rope_scaling`, whose kind was once called `type`. `turned`: the part
/// of a head's columns, where a family may turn a part.
void rotary(const Keys& keys, model::Rotary& r, std::string_view theta_key = "rope_theta", double* turned = nullptr) {
  r.theta = keys.number(theta_key, 10000);
  require_one_rope(keys);
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (const auto object = keys.member(key)) read_rope(*object, r, turned);
  if (!(r.theta > 0)) keys.refuse(theta_key, text("expected a number above 0, got ", r.theta));
}

/// Norms without mean and bias, a gate, rotation and no biases: all but the gate's activation and how blocks turn.
void built_like_llama(const Keys& keys, model::Config& c, const LlamaDefaults& otherwise) {
  c.blocks = keys.integer("num_hidden_layers", otherwise.blocks);
  c.hidden = c.embedding_width = keys.integer("hidden_size", otherwise.hidden);
  c.heads = keys.integer("num_attention_heads", otherwise.heads);
  c.key_value_heads = keys.integer("num_key_value_heads", otherwise.key_value_heads > 0 ? otherwise.key_value_heads : c.heads);
  if (c.key_value_heads == c.heads) c.key_value_heads = 0;
  c.feed_forward = keys.integer("intermediate_size", otherwise.feed_forward);
  c.vocabulary = keys.integer("vocab_size", otherwise.vocabulary);
  c.positions = keys.integer("max_position_embeddings", otherwise.positions);
  c.norm_kind = model::NormKind::rms;
  c.norm_epsilon = keys.number("rms_norm_eps", 1e-6);
  c.attention_dropout = keys.number("attention_dropout", 0);
  c.init_std = keys.number("initializer_range", 0.02);
  c.qkv_bias = c.attention_output_bias = c.feed_forward_bias = false;
  c.tied_head = keys.flag("tie_word_embeddings", otherwise.tied_head);
  const int head = keys.integer("head_dim", otherwise.head > 0 ? otherwise.head : c.hidden / c.heads);
  c.head_width = std::int64_t{head} * c.heads == c.hidden ? 0 : head;
  keys.require_number("partial_rotary_factor", 1, 1);
}

}  // namespace

void config_json::like_llama(const Keys& keys, model::Config& c, const LlamaDefaults& otherwise) {
  built_like_llama(keys, c, otherwise);
  c.activation = model::Activation::swiglu;
  const std::string gate = keys.name("hidden_act", "silu");
  if (gate != "silu" && gate != "swish") keys.refuse("hidden_act", text("expected silu, got ", in_quotes(gate)));
  rotary(keys, c.rotary);
}

namespace {

void llama(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {11008, 32000, 2048, 0});
  c.qkv_bias = c.attention_output_bias = keys.flag("attention_bias", false);
  c.feed_forward_bias = keys.flag("mlp_bias", false);
}

/// A window in every block, unless it is null.
void mistral(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {14336, 32000, 131072, 8});
  const int window = keys.is_null("sliding_window") ? 0 : keys.integer("sliding_window", 4096);
  if (window > 0) c.windows = {window};
}

/// layer_types, or what stood in its place before transformers 4.53: `has_window` of a block's number.
template <class HasWindow>
std::vector<int> layer_windows(const Keys& keys, int blocks, int window, const HasWindow& has_window) {
  if (blocks > most_listed_blocks) keys.refuse("num_hidden_layers", text("expected at most ", most_listed_blocks, ", got ", blocks));
  std::vector<int> all;
  const auto types = keys.member("layer_types");
  for (int block = 0; !types && block < blocks; ++block) all.push_back(has_window(block) ? window : 0);
  for (const Json& type : types ? types->items() : std::vector<Json>{}) {
    const std::string name = type.as_string();
    if (name != "full_attention" && name != "sliding_attention")
      type.refuse(text("expected full_attention or sliding_attention, got ", in_quotes(name)));
    all.push_back(name == "sliding_attention" ? window : 0);
  }
  if (static_cast<int>(all.size()) != blocks) keys.refuse("layer_types", text("expected kinds of attention for ", blocks, " layers"));
  return shortest_period(std::move(all));
}

/// A list that says otherwise would be dropped.
std::vector<int> without_windows(const Keys& keys) {
  if (const auto types = keys.member("layer_types"))
    for (const Json& type : types->items())
      if (type.as_string() != "full_attention")
        type.refuse("expected full_attention: no window is given (sliding_window, use_sliding_window)");
  return {};
}

}  // namespace

/// The blocks from max_window_layers on.
std::vector<int> config_json::qwen2_windows(const Keys& keys, int blocks) {
  const int window = keys.flag("use_sliding_window", false) && !keys.is_null("sliding_window") ? keys.integer("sliding_window", 4096) : 0;
  if (window == 0) return without_windows(keys);
  const int first = keys.integer("max_window_layers", 28, 0);
  return layer_windows(keys, blocks, window, [&](int block) { return block >= first; });
}

namespace {

/// Biases on queries, keys and values alone.
void qwen2(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {22016, 151936, 32768, 32});
  c.qkv_bias = true;
  c.windows = qwen2_windows(keys, c.blocks);
}

/// As Qwen2, but for biases on request; heads are normed.
void qwen3(const Keys& keys, model::Config& c) {
  like_llama(keys, c, {22016, 151936, 32768, 32, 128});
  c.qkv_bias = c.attention_output_bias = keys.flag("attention_bias", false);
  c.query_key_norms = true;
  c.windows = qwen2_windows(keys, c.blocks);
}

/// Norms that multiply with 1 + weight, before and behind sub-layers; GeGLU; an embedding that is scaled. Every `period`-th block sees all
/// keys before, the others a window of them.
void like_gemma(const Keys& keys, model::Config& c, const LlamaDefaults& otherwise, int period) {
  built_like_llama(keys, c, otherwise);
  c.activation = model::Activation::geglu;
  if (activation(keys, "hidden_activation", "gelu_pytorch_tanh") != model::Activation::gelu_tanh)
    keys.refuse("hidden_activation", "expected gelu_pytorch_tanh");
  c.norm_offset = c.output_norms = c.scaled_embedding = true;
  c.qkv_bias = c.attention_output_bias = keys.flag("attention_bias", false);
  c.score_width = keys.number("query_pre_attn_scalar", 256);
  if (!(c.score_width > 0)) keys.refuse("query_pre_attn_scalar", text("expected a number above 0, got ", c.score_width));
  if (c.score_width == c.head_size()) c.score_width = 0;
  const int window = keys.is_null("sliding_window") ? 0 : keys.integer("sliding_window", 4096);
  c.windows =
      window == 0 ? without_windows(keys) : layer_windows(keys, c.blocks, window, [&](int block) { return (block + 1) % period != 0; });
  keys.require_flag("use_bidirectional_attention", false, false);
}

/// A cap of scores or logits; null: none.
double cap(const Keys& keys, std::string_view key, double otherwise) { return keys.is_null(key) ? 0 : keys.number(key, otherwise); }

void gemma2(const Keys& keys, model::Config& c) {
  like_gemma(keys, c, {9216, 256000, 8192, 4, 256, 26, 2304, 8, true}, 2);
  rotary(keys, c.rotary);
  c.score_cap = cap(keys, "attn_logit_softcapping", 50);
  c.logit_cap = cap(keys, "final_logit_softcapping", 30);
}

/// How blocks turn, by their kind: `rope_parameters` since transformers 5; before, what is told apart by other keys.
void gemma3_rotary(const Keys& keys, model::Rotary& r) {
  r.theta = keys.number("rope_theta", 1e6);
  require_one_rope(keys);
  model::Rotary windows;
  windows.theta = keys.number("rope_local_base_freq", 1e4);
  if (const auto object = keys.member("rope_scaling")) read_rope(*object, r);
  if (const auto object = keys.member("rope_parameters"))
    for (const auto& [key, rotary] : {std::pair{"full_attention", &r}, {"sliding_attention", &windows}})
      if (const auto kind = Keys{*object}.member(key)) read_rope(*kind, *rotary);
  if (windows.factor != 1 || windows.linear || windows.yarn)
    keys.refuse("rope_parameters", "expected rope_type default for sliding_attention");
  r.window_theta = windows.theta;
  if (!(r.theta > 0 && r.window_theta > 0))
    keys.refuse("rope_theta", text("expected numbers above 0, got ", r.theta, " and ", r.window_theta));
}

/// Heads are normed; blocks with a window turn by angles of their own. Scores have no cap in transformers, whatever the file says.
void gemma3(const Keys& keys, model::Config& c) {
  like_gemma(keys, c, {9216, 262208, 131072, 4, 256, 26, 2304, 8, true}, keys.integer("sliding_window_pattern", 6));
  gemma3_rotary(keys, c.rotary);
  c.query_key_norms = true;
  c.logit_cap = cap(keys, "final_logit_softcapping", 0);
  if (cap(keys, "attn_logit_softcapping", 0) != 0) keys.refuse("attn_logit_softcapping", "expected null");
}

/// The part of each head that is turned, rounded down as transformers does it.
int turned_columns(const Keys& keys, const model::Config& c, double part) {
  const double columns = c.head_size() * part;
  if (!(columns >= 1 && columns <= c.head_size()))
    keys.refuse("rotary_pct", text("expected a part of a head's ", c.head_size(), " columns, got ", part));
  return static_cast<int>(columns) == c.head_size() ? 0 : static_cast<int>(columns);
}

void gpt_neox(const Keys& keys, model::Config& c) {
  c.blocks = keys.integer("num_hidden_layers", 44);
  c.hidden = c.embedding_width = keys.integer("hidden_size", 6144);
  c.heads = keys.integer("num_attention_heads", 64);
  c.feed_forward = keys.integer("intermediate_size", 24576);
  c.vocabulary = keys.integer("vocab_size", 50432);
  c.positions = keys.integer("max_position_embeddings", 2048);
  c.activation = activation(keys, "hidden_act", "gelu");
  c.norm_epsilon = keys.number("layer_norm_eps", 1e-5);
  c.dropout = keys.number("hidden_dropout", 0);
  c.attention_dropout = keys.number("attention_dropout", 0);
  c.init_std = keys.number("initializer_range", 0.02);
  double part = keys.number("partial_rotary_factor", keys.number("rotary_pct", 0.25));
  rotary(keys, c.rotary, "rotary_emb_base", &part);
  c.rotary.width = turned_columns(keys, c, part);
  c.parallel_residual = keys.flag("use_parallel_residual", true);
  c.interleaved_qkv = true;
  c.qkv_bias = c.attention_output_bias = keys.flag("attention_bias", true);
  c.tied_head = keys.flag("tie_word_embeddings", false);
}

/// Published files say n_embed and num_attention_heads, transformers 5 hidden_size and n_head. A sequence may be of any length; seq_length
/// is what the model was trained with.
void bloom(const Keys& keys, model::Config& c) {
  c.blocks = keys.integer("n_layer", keys.integer("num_hidden_layers", 2));
  c.hidden = c.embedding_width = keys.integer("n_embed", keys.integer("hidden_size", 64));
  c.heads = keys.integer("n_head", keys.integer("num_attention_heads", 8));
  c.feed_forward = four_times(c.hidden);
  if (keys.integer("n_inner", c.feed_forward) != c.feed_forward)
    keys.refuse("n_inner", text("expected ", c.feed_forward, ", 4 x hidden_size"));
  c.vocabulary = keys.integer("vocab_size", 250880);
  c.positions = keys.integer("seq_length", 2048);
  c.norm_epsilon = keys.number("layer_norm_epsilon", 1e-5);
  c.attention_dropout = keys.number("attention_dropout", 0);
  c.init_std = keys.number("initializer_range", 0.02);
  c.alibi = c.embedding_norm = c.interleaved_qkv = true;
  keys.require_number("hidden_dropout", 0, 0);  // which leaves the embedding alone
  keys.require_flag("apply_residual_connection_post_layernorm", false, false);
  keys.require_flag("tie_word_embeddings", true, true);
}

struct Family {
  const char* name;
  void (*read)(const Keys&, model::Config&);
};
constexpr Family families[] = {
    {"gpt2", gpt2},          {"opt", opt},         {"gpt_neo", gpt_neo},     {"llama", llama},         {"mistral", mistral},
    {"qwen2", qwen2},        {"qwen3", qwen3},     {"gpt_neox", gpt_neox},   {"bloom", bloom},         {"gemma2", gemma2},
    {"gemma3_text", gemma3}, {"mixtral", mixtral}, {"qwen2_moe", qwen2_moe}, {"qwen3_moe", qwen3_moe}, {"olmoe", olmoe},
    {"deepseek", deepseek}};
/// Attention over a low-rank projection of keys and values (DeepSeek-AI 2024, https://arxiv.org/abs/2405.04434), which we have no costs of.
constexpr std::string_view latent_families[] = {"deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"};

std::string family_names() {
  std::string names;
  for (std::size_t i = 0; i < std::size(families); ++i)
    names += text(i == 0 ? "" : i + 1 == std::size(families) ? " or " : ", ", families[i].name);
  return names;
}

model::Config config_of(const Json& document, std::string_view name) {
  const Keys keys{document};
  model::Config config;
  config.name = name;
  config.family = document.get_string("model_type");
  keys.require_flag("is_encoder_decoder", false, false);
  if (config.family == "gemma3")
    document.at("model_type")
        .refuse("expected gemma3_text; Flotilla trains Gemma 3 without its part for images: save its language model alone");
  if (std::ranges::find(latent_families, config.family) != std::end(latent_families))
    document.at("model_type")
        .refuse(text("expected ", family_names(), ", got ", in_quotes(config.family),
                     ", which has multi-head latent attention; Flotilla has no forecast of it"));
  const auto* family = std::ranges::find(families, config.family, &Family::name);
  if (family == std::end(families))
    document.at("model_type").refuse(text("expected ", family_names(), ", got ", document.at("model_type").one_line()));
  family->read(keys, config);
  model::check(config, document.source());
  return config;
}

/// Of Megatron-LM: "iter_0000100", "mp_rank_00_000", "latest_checkpointed_iteration.txt", "common.pt", "model_optim_rng.pt". Of PyTorch's
/// distributed checkpoints, which Megatron-Core writes, too: ".metadata".
bool marks_pickles(const std::string& name) {
  return name.starts_with("iter_") || name.starts_with("mp_rank_") || name == "latest_checkpointed_iteration.txt" || name == "common.pt" ||
         name == "model_optim_rng.pt" || name == ".metadata";
}

/// What people have instead of a Hugging Face model. Pickles are programs: nothing here runs them.
void refuse_other_checkpoints(const std::filesystem::path& config) {
  if (facts_of(config)) return;
  const auto folder = config.parent_path();
  std::error_code error;
  FLOTILLA_REQUIRE(!std::filesystem::is_regular_file(folder, error), ErrorKind::bad_input, folder.string(),
                   ": is a file; expected the directory of a Hugging Face model: flotilla import llmc makes one of a model file of llm.c");
  for (const auto& entry : std::filesystem::directory_iterator{folder, error}) {
    const auto name = entry.path().filename().string();
    FLOTILLA_REQUIRE(!marks_pickles(name), ErrorKind::bad_input, folder.string(), ": is a checkpoint of Megatron-LM or PyTorch (it holds ",
                     printable(name), "), in Python's pickles; expected the directory of a Hugging Face model: convert one of Megatron-LM ",
                     "with export_ckpt of Megatron Bridge");
  }
  require_there(config, "the config.json of a Hugging Face model");
}

}  // namespace

model::Config hugging_face_config_from_json(std::string_view text, std::string_view source, std::string_view name) {
  return config_of(Json::parse(text, source), name);
}

model::Config read_hugging_face_config(const std::filesystem::path& path) {
  refuse_other_checkpoints(path);
  const std::filesystem::path full = std::filesystem::absolute(path);
  const std::filesystem::path named = path.filename() == "config.json" ? full.parent_path().filename() : full.stem();
  return config_of(Json::read(path), named.string());
}

}  // namespace flotilla::files
