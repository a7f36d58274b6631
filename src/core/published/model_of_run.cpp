#include "model_of_run.hpp"

#include <algorithm>
#include <array>

namespace flotilla::published {
namespace {

/// What runs leave unsaid of GPT-2's and Llama's families.
constexpr int usual_vocabulary = 50257;
constexpr int usual_feed_forward = 4;  // times hidden

enum class Shape { gpt, llama, squared_relu };

Shape shape_of(const std::string& family) {
  constexpr std::array llamas{"llama", "internlm", "qwen", "baichuan", "grok"};
  if (std::ranges::any_of(llamas, [&](const char* name) { return family.starts_with(name); })) return Shape::llama;
  return family.starts_with("nemotron") ? Shape::squared_relu : Shape::gpt;
}

/// Norms without mean and bias, positions by rotation, no biases, an untied head.
void make_llama(model::Config& c) {
  c.family = "llama";
  c.norm_kind = model::NormKind::rms;
  c.activation = model::Activation::swiglu;
  c.rotary.theta = 1e4;
  c.qkv_bias = c.attention_output_bias = c.feed_forward_bias = false;
  c.tied_head = false;
}

void make_squared_relu(model::Config& c) {
  c.family = "llama";
  c.activation = model::Activation::relu;  // its square costs what the ReLU does
  c.rotary.theta = 1e4;
  c.qkv_bias = c.attention_output_bias = c.feed_forward_bias = false;
  c.tied_head = false;
}

void make_gpt(model::Config& c) {
  c.family = "gpt2";
  c.activation = model::Activation::gelu_tanh;
  c.dropout = c.attention_dropout = 0.1;
}

void apply_stated(model::Config& c, const Transformer& stated) {
  if (stated.tied_head) c.tied_head = *stated.tied_head;
  if (stated.rotary) c.rotary.theta = *stated.rotary ? 1e4 : 0;
  if (stated.bias) c.qkv_bias = c.attention_output_bias = c.feed_forward_bias = *stated.bias;
}

}  // namespace

model::Config model_of(const Run& run, int vocabulary_multiple) {
  const Transformer& stated = run.model;
  const Shape shape = shape_of(stated.family);
  model::Config c;
  c.name = run.id;
  if (shape == Shape::gpt) make_gpt(c);
  if (shape == Shape::llama) make_llama(c);
  if (shape == Shape::squared_relu) make_squared_relu(c);
  apply_stated(c, stated);
  c.blocks = stated.blocks;
  c.hidden = c.embedding_width = stated.hidden;
  c.heads = stated.heads;
  c.key_value_heads = stated.key_value_heads == stated.heads ? 0 : stated.key_value_heads;
  c.feed_forward = stated.feed_forward > 0 ? stated.feed_forward : usual_feed_forward * stated.hidden;
  if (stated.experts > 0) c.experts = {stated.experts, stated.experts_per_token, c.feed_forward};
  const int words = stated.vocabulary > 0 ? stated.vocabulary : usual_vocabulary;
  c.vocabulary = (words + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
  c.positions = std::max(stated.positions, run.length);
  return c;
}

}  // namespace flotilla::published
