#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace {

using detail::Node;

const char* activation_of(const model::Config& c) {
  return c.activation == model::Activation::relu ? "relu" : c.activation == model::Activation::gelu ? "gelu" : "gelu_new";
}

void write_gpt2(const model::Config& c, Node::Object& o) {
  o.insert(o.end(), {{"architectures", Node::Array{"GPT2LMHeadModel"}},
                     {"n_layer", c.blocks},
                     {"n_embd", c.hidden},
                     {"n_head", c.heads},
                     {"n_inner", c.feed_forward},
                     {"n_positions", c.positions},
                     {"activation_function", activation_of(c)},
                     {"layer_norm_epsilon", c.norm_epsilon},
                     {"resid_pdrop", c.dropout},
                     {"embd_pdrop", c.dropout},
                     {"attn_pdrop", c.attention_dropout},
                     {"initializer_range", c.init_std}});
}

void write_opt(const model::Config& c, Node::Object& o) {
  const bool norm_first = c.norm == model::NormPlacement::pre;
  o.insert(o.end(), {{"architectures", Node::Array{"OPTForCausalLM"}},
                     {"num_hidden_layers", c.blocks},
                     {"hidden_size", c.hidden},
                     {"num_attention_heads", c.heads},
                     {"ffn_dim", c.feed_forward},
                     {"max_position_embeddings", c.positions},
                     {"word_embed_proj_dim", c.embedding_width},
                     {"activation_function", activation_of(c)},
                     {"do_layer_norm_before", norm_first},
                     {"_remove_final_layer_norm", norm_first && !c.final_norm},
                     {"dropout", c.dropout},
                     {"attention_dropout", c.attention_dropout},
                     {"layerdrop", 0.0},
                     {"init_std", c.init_std}});
}

void write_gpt_neo(const model::Config& c, Node::Object& o) {
  Node::Array kinds;
  for (int block = 0; block < c.blocks; ++block) kinds.emplace_back(c.window(block) > 0 ? "local" : "global");
  const auto window = std::ranges::max_element(c.windows);
  o.insert(o.end(), {{"architectures", Node::Array{"GPTNeoForCausalLM"}},
                     {"num_layers", c.blocks},
                     {"hidden_size", c.hidden},
                     {"num_heads", c.heads},
                     {"intermediate_size", c.feed_forward},
                     {"max_position_embeddings", c.positions},
                     {"activation_function", activation_of(c)},
                     {"layer_norm_epsilon", c.norm_epsilon},
                     {"attention_types", Node::Array{Node::Array{kinds, 1}}},
                     {"window_size", window == c.windows.end() || *window == 0 ? 256 : *window},
                     {"resid_dropout", c.dropout},
                     {"embed_dropout", c.dropout},
                     {"attention_dropout", c.attention_dropout},
                     {"initializer_range", c.init_std}});
}

Node yarn(const model::Rotary& r) {
  Node::Object scaling{{"rope_type", "yarn"},
                       {"factor", r.factor},
                       {"beta_slow", r.low_frequency},
                       {"beta_fast", r.high_frequency},
                       {"original_max_position_embeddings", r.original_positions}};
  if (r.attention_factor > 0) scaling.push_back({"attention_factor", r.attention_factor});
  return scaling;
}

Node rope_scaling(const model::Rotary& r) {
  if (r.yarn) return yarn(r);
  if (r.factor == 1) return {};
  if (r.linear) return Node::Object{{"rope_type", "linear"}, {"factor", r.factor}};
  return Node::Object{{"rope_type", "llama3"},
                      {"factor", r.factor},
                      {"low_freq_factor", r.low_frequency},
                      {"high_freq_factor", r.high_frequency},
                      {"original_max_position_embeddings", r.original_positions}};
}

/// What the models that are built like Llama have in common, but for the gate's activation.
void write_built_like_llama(const model::Config& c, const char* architecture, Node::Object& o) {
  o.insert(o.end(), {{"architectures", Node::Array{architecture}},
                     {"num_hidden_layers", c.blocks},
                     {"hidden_size", c.hidden},
                     {"num_attention_heads", c.heads},
                     {"num_key_value_heads", c.groups()},
                     {"head_dim", c.head_size()},
                     {"intermediate_size", c.feed_forward},
                     {"max_position_embeddings", c.positions},
                     {"rms_norm_eps", c.norm_epsilon},
                     {"rope_theta", c.rotary.theta},
                     {"rope_scaling", rope_scaling(c.rotary)},
                     {"attention_dropout", c.attention_dropout},
                     {"initializer_range", c.init_std}});
}

void write_like_llama(const model::Config& c, const char* architecture, Node::Object& o) {
  write_built_like_llama(c, architecture, o);
  o.push_back({"hidden_act", "silu"});
}

void write_llama(const model::Config& c, Node::Object& o) {
  write_like_llama(c, "LlamaForCausalLM", o);
  o.insert(o.end(), {{"attention_bias", c.qkv_bias}, {"mlp_bias", c.feed_forward_bias}});
}

void write_mistral(const model::Config& c, Node::Object& o) {
  write_like_llama(c, "MistralForCausalLM", o);
  o.push_back({"sliding_window", c.windows.empty() ? Node{} : Node{c.windows.front()}});
}

void write_layer_windows(const model::Config& c, Node::Object& o) {
  Node::Array types;
  for (int block = 0; block < c.blocks; ++block) types.emplace_back(c.window(block) > 0 ? "sliding_attention" : "full_attention");
  o.insert(o.end(), {{"sliding_window", *std::ranges::max_element(c.windows)}, {"layer_types", std::move(types)}});
}

void write_qwen2_windows(const model::Config& c, Node::Object& o) {
  o.push_back({"use_sliding_window", !c.windows.empty()});
  if (!c.windows.empty()) write_layer_windows(c, o);
}

void write_qwen2(const model::Config& c, Node::Object& o) {
  write_like_llama(c, "Qwen2ForCausalLM", o);
  write_qwen2_windows(c, o);
}

void write_qwen3(const model::Config& c, Node::Object& o) {
  write_like_llama(c, "Qwen3ForCausalLM", o);
  o.push_back({"attention_bias", c.qkv_bias});
  write_qwen2_windows(c, o);
}

Node cap(double value) { return value > 0 ? Node{value} : Node{}; }

void write_gemma(const model::Config& c, const char* architecture, Node::Object& o) {
  write_built_like_llama(c, architecture, o);
  o.insert(o.end(), {{"hidden_activation", "gelu_pytorch_tanh"},
                     {"query_pre_attn_scalar", c.score_width > 0 ? c.score_width : c.head_size()},
                     {"attn_logit_softcapping", cap(c.score_cap)},
                     {"final_logit_softcapping", cap(c.logit_cap)},
                     {"attention_bias", c.qkv_bias}});
  if (c.windows.empty())
    o.push_back({"sliding_window", Node{}});
  else
    write_layer_windows(c, o);
}

void write_gemma2(const model::Config& c, Node::Object& o) { write_gemma(c, "Gemma2ForCausalLM", o); }

void write_gemma3(const model::Config& c, Node::Object& o) {
  write_gemma(c, "Gemma3ForCausalLM", o);
  o.push_back({"rope_local_base_freq", c.rotary.window_theta});
}

/// Of a head: what times its columns, rounded down, are those that are turned.
double turned_part(const model::Config& c) {
  double part = static_cast<double>(c.rotated_columns()) / c.head_size();
  while (c.head_size() * part < c.rotated_columns()) part = std::nextafter(part, 1.0);
  return part;
}

void write_gpt_neox(const model::Config& c, Node::Object& o) {
  o.insert(o.end(), {{"architectures", Node::Array{"GPTNeoXForCausalLM"}},
                     {"num_hidden_layers", c.blocks},
                     {"hidden_size", c.hidden},
                     {"num_attention_heads", c.heads},
                     {"intermediate_size", c.feed_forward},
                     {"max_position_embeddings", c.positions},
                     {"hidden_act", activation_of(c)},
                     {"layer_norm_eps", c.norm_epsilon},
                     {"hidden_dropout", c.dropout},
                     {"attention_dropout", c.attention_dropout},
                     {"initializer_range", c.init_std},
                     {"rotary_emb_base", c.rotary.theta},
                     {"rotary_pct", turned_part(c)},
                     {"rope_scaling", rope_scaling(c.rotary)},
                     {"use_parallel_residual", c.parallel_residual},
                     {"attention_bias", c.qkv_bias}});
}

void write_bloom(const model::Config& c, Node::Object& o) {
  o.insert(o.end(), {{"architectures", Node::Array{"BloomForCausalLM"}},
                     {"n_layer", c.blocks},
                     {"hidden_size", c.hidden},
                     {"n_head", c.heads},
                     {"seq_length", c.positions},
                     {"layer_norm_epsilon", c.norm_epsilon},
                     {"hidden_dropout", 0.0},
                     {"attention_dropout", c.attention_dropout},
                     {"initializer_range", c.init_std},
                     {"apply_residual_connection_post_layernorm", false}});
}

struct WrittenFamily {
  const char* name;
  void (*write)(const model::Config&, Node::Object&);
};
constexpr WrittenFamily written_families[] = {{"gpt2", write_gpt2},     {"opt", write_opt},           {"gpt_neo", write_gpt_neo},
                                              {"llama", write_llama},   {"mistral", write_mistral},   {"qwen2", write_qwen2},
                                              {"qwen3", write_qwen3},   {"gpt_neox", write_gpt_neox}, {"bloom", write_bloom},
                                              {"gemma2", write_gemma2}, {"gemma3_text", write_gemma3}};

/// Tokens of a model whose tokenizer nobody has named: none.
Node::Object from_nothing(const model::Config& c) {
  const auto* family = std::ranges::find(written_families, c.family, &WrittenFamily::name);
  FLOTILLA_REQUIRE(family != std::end(written_families), ErrorKind::unavailable,
                   "a config.json is written for models of the families gpt2, opt, ",
                   "gpt_neo, llama, mistral, qwen2, qwen3, gpt_neox, bloom, gemma2 and gemma3_text; this model's is ", in_quotes(c.family));
  Node::Object object{{"model_type", c.family}};
  family->write(c, object);
  object.insert(object.end(), {{"vocab_size", c.vocabulary},
                               {"tie_word_embeddings", c.tied_head},
                               {"bos_token_id", Node{}},
                               {"eos_token_id", Node{}},
                               {"pad_token_id", Node{}}});
  return object;
}

const char* torch_name(Precision p) { return p == Precision::fp32 ? "float32" : p == Precision::bf16 ? "bfloat16" : "float16"; }

}  // namespace

std::string hugging_face_config_to_json(const model::Config& config, Precision precision, std::string_view original) {
  auto kept = original.empty() ? Node{from_nothing(config)} : detail::parse(original, "config.json");
  FLOTILLA_REQUIRE(std::holds_alternative<Node::Object>(kept.value), ErrorKind::bad_input, "config.json: expected an object");
  auto& object = std::get<Node::Object>(kept.value);
  std::erase_if(object, [](const detail::ObjectMember& m) { return m.key == "dtype" || m.key == "torch_dtype"; });
  object.push_back({"dtype", torch_name(precision)});
  object.push_back({"torch_dtype", torch_name(precision)});  // before transformers 5
  return detail::pretty(kept) + "\n";
}

}  // namespace flotilla::files
