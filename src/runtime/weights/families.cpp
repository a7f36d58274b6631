#include "families.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/weights/adapter_parts.hpp"

namespace flotilla::weights {
namespace {

constexpr NameRow gpt2[] = {
    {"embedding.word", "transformer.wte.weight"},
    {"embedding.position", "transformer.wpe.weight"},
    {"block.*.norm1", "transformer.h.*.ln_1"},
    {"block.*.attention.qkv", "transformer.h.*.attn.c_attn", TensorPart::transposed},
    {"block.*.attention.out", "transformer.h.*.attn.c_proj", TensorPart::transposed},
    {"block.*.norm2", "transformer.h.*.ln_2"},
    {"block.*.feed_forward.up", "transformer.h.*.mlp.c_fc", TensorPart::transposed},
    {"block.*.feed_forward.down", "transformer.h.*.mlp.c_proj", TensorPart::transposed},
    {"head.norm", "transformer.ln_f"},
};

constexpr NameRow opt[] = {
    {"embedding.word", "model.decoder.embed_tokens.weight"},
    {"embedding.position", "model.decoder.embed_positions.weight"},
    {"embedding.project_in", "model.decoder.project_in.weight"},
    {"block.*.norm1", "model.decoder.layers.*.self_attn_layer_norm"},
    {"block.*.attention.qkv", "model.decoder.layers.*.self_attn.q_proj", TensorPart::queries},
    {"block.*.attention.qkv", "model.decoder.layers.*.self_attn.k_proj", TensorPart::keys},
    {"block.*.attention.qkv", "model.decoder.layers.*.self_attn.v_proj", TensorPart::values},
    {"block.*.attention.out", "model.decoder.layers.*.self_attn.out_proj"},
    {"block.*.norm2", "model.decoder.layers.*.final_layer_norm"},
    {"block.*.feed_forward.up", "model.decoder.layers.*.fc1"},
    {"block.*.feed_forward.down", "model.decoder.layers.*.fc2"},
    {"head.norm", "model.decoder.final_layer_norm"},
    {"head.project_out", "model.decoder.project_out.weight"},
};

constexpr NameRow gpt_neo[] = {
    {"embedding.word", "transformer.wte.weight"},
    {"embedding.position", "transformer.wpe.weight"},
    {"block.*.norm1", "transformer.h.*.ln_1"},
    {"block.*.attention.qkv", "transformer.h.*.attn.attention.q_proj", TensorPart::queries},
    {"block.*.attention.qkv", "transformer.h.*.attn.attention.k_proj", TensorPart::keys},
    {"block.*.attention.qkv", "transformer.h.*.attn.attention.v_proj", TensorPart::values},
    {"block.*.attention.out", "transformer.h.*.attn.attention.out_proj"},
    {"block.*.norm2", "transformer.h.*.ln_2"},
    {"block.*.feed_forward.up", "transformer.h.*.mlp.c_fc"},
    {"block.*.feed_forward.down", "transformer.h.*.mlp.c_proj"},
    {"head.norm", "transformer.ln_f"},
};

constexpr NameRow llama[] = {
    {"embedding.word", "model.embed_tokens.weight"},
    {"block.*.norm1", "model.layers.*.input_layernorm"},
    {"block.*.attention.qkv", "model.layers.*.self_attn.q_proj", TensorPart::queries},
    {"block.*.attention.qkv", "model.layers.*.self_attn.k_proj", TensorPart::keys},
    {"block.*.attention.qkv", "model.layers.*.self_attn.v_proj", TensorPart::values},
    {"block.*.attention.query_norm", "model.layers.*.self_attn.q_norm"},
    {"block.*.attention.key_norm", "model.layers.*.self_attn.k_norm"},
    {"block.*.attention.out", "model.layers.*.self_attn.o_proj"},
    {"block.*.norm2", "model.layers.*.post_attention_layernorm"},
    {"block.*.feed_forward.up", "model.layers.*.mlp.gate_proj", TensorPart::first_half},
    {"block.*.feed_forward.up", "model.layers.*.mlp.up_proj", TensorPart::second_half},
    {"block.*.feed_forward.down", "model.layers.*.mlp.down_proj"},
    {"head.norm", "model.norm"},
    {"head.word", "lm_head.weight"},
};

/// Llama's names, but that the norm behind attention has the one of Llama's before the feed-forward.
constexpr NameRow gemma[] = {
    {"embedding.word", "model.embed_tokens.weight"},
    {"block.*.norm1", "model.layers.*.input_layernorm"},
    {"block.*.attention.qkv", "model.layers.*.self_attn.q_proj", TensorPart::queries},
    {"block.*.attention.qkv", "model.layers.*.self_attn.k_proj", TensorPart::keys},
    {"block.*.attention.qkv", "model.layers.*.self_attn.v_proj", TensorPart::values},
    {"block.*.attention.query_norm", "model.layers.*.self_attn.q_norm"},
    {"block.*.attention.key_norm", "model.layers.*.self_attn.k_norm"},
    {"block.*.attention.output_norm", "model.layers.*.post_attention_layernorm"},
    {"block.*.attention.out", "model.layers.*.self_attn.o_proj"},
    {"block.*.norm2", "model.layers.*.pre_feedforward_layernorm"},
    {"block.*.feed_forward.up", "model.layers.*.mlp.gate_proj", TensorPart::first_half},
    {"block.*.feed_forward.up", "model.layers.*.mlp.up_proj", TensorPart::second_half},
    {"block.*.feed_forward.output_norm", "model.layers.*.post_feedforward_layernorm"},
    {"block.*.feed_forward.down", "model.layers.*.mlp.down_proj"},
    {"head.norm", "model.norm"},
    {"head.word", "lm_head.weight"},
};

constexpr NameRow gpt_neox[] = {
    {"embedding.word", "gpt_neox.embed_in.weight"},
    {"block.*.norm1", "gpt_neox.layers.*.input_layernorm"},
    {"block.*.attention.qkv", "gpt_neox.layers.*.attention.query_key_value"},
    {"block.*.attention.out", "gpt_neox.layers.*.attention.dense"},
    {"block.*.norm2", "gpt_neox.layers.*.post_attention_layernorm"},
    {"block.*.feed_forward.up", "gpt_neox.layers.*.mlp.dense_h_to_4h"},
    {"block.*.feed_forward.down", "gpt_neox.layers.*.mlp.dense_4h_to_h"},
    {"head.norm", "gpt_neox.final_layer_norm"},
    {"head.word", "embed_out.weight"},
};

constexpr NameRow bloom[] = {
    {"embedding.word", "transformer.word_embeddings.weight"},
    {"embedding.norm", "transformer.word_embeddings_layernorm"},
    {"block.*.norm1", "transformer.h.*.input_layernorm"},
    {"block.*.attention.qkv", "transformer.h.*.self_attention.query_key_value"},
    {"block.*.attention.out", "transformer.h.*.self_attention.dense"},
    {"block.*.norm2", "transformer.h.*.post_attention_layernorm"},
    {"block.*.feed_forward.up", "transformer.h.*.mlp.dense_h_to_4h"},
    {"block.*.feed_forward.down", "transformer.h.*.mlp.dense_4h_to_h"},
    {"head.norm", "transformer.ln_f"},
};

constexpr Family families[] = {
    {"gpt2", "transformer.", gpt2},       {"opt", "model.", opt},
    {"gpt_neo", "transformer.", gpt_neo}, {"llama", "model.", llama},
    {"mistral", "model.", llama},         {"qwen2", "model.", llama},
    {"qwen3", "model.", llama},           {"gpt_neox", "gpt_neox.", gpt_neox},
    {"bloom", "transformer.", bloom},     {"gemma2", "model.", gemma},
    {"gemma3_text", "model.", gemma},
};

}  // namespace

const Family* find_family(std::string_view name) {
  const auto* found = std::ranges::find(families, name, &Family::name);
  return found == std::end(families) ? nullptr : found;
}

AdapterParts adapter_parts(std::string_view family) {
  const Family* known = find_family(family);
  if (known == nullptr) return {};
  const auto rows = [&](std::string_view ours) { return static_cast<int>(std::ranges::count(known->rows, ours, &NameRow::ours)); };
  return {rows("block.*.attention.qkv"), rows("block.*.feed_forward.up")};
}

const Family& family_named(std::string_view name) {
  const Family* found = find_family(name);
  FLOTILLA_REQUIRE(found != nullptr, ErrorKind::unavailable, "the tensors of models of the family ", in_quotes(name),
                   " have no names in Hugging Face's files that Flotilla knows; expected gpt2, opt, gpt_neo, llama, mistral, qwen2, qwen3,",
                   " gpt_neox, bloom, gemma2 or gemma3_text");
  return *found;
}

bool is_head(std::string_view theirs) { return theirs == "lm_head.weight" || theirs == "embed_out.weight"; }

bool is_computed(std::string_view theirs) {
  static constexpr std::array<std::string_view, 5> computed{".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
                                                            ".rotary_emb.inv_freq"};
  return std::ranges::any_of(computed, [&](std::string_view ending) { return theirs.ends_with(ending); });
}

}  // namespace flotilla::weights
