#include "model_object.hpp"

#include <algorithm>

#include "document.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/plan_file.hpp"

namespace flotilla::files {
namespace {

using model::Activation;
using model::NormKind;
using model::NormPlacement;

struct ActivationWord {
  Activation activation;
  const char* word;
};
constexpr ActivationWord activations[] = {{Activation::gelu_tanh, "gelu_tanh"},
                                          {Activation::gelu, "gelu"},
                                          {Activation::relu, "relu"},
                                          {Activation::swiglu, "swiglu"},
                                          {Activation::geglu, "geglu"}};

const char* word_for(Activation a) { return std::ranges::find(activations, a, &ActivationWord::activation)->word; }
const char* word_for(NormKind n) { return n == NormKind::rms ? "rms" : "layer"; }
const char* word_for(NormPlacement n) { return n == NormPlacement::post ? "post" : "pre"; }

Activation parse_activation(const std::string& name) {
  const auto* found = std::ranges::find(activations, name, &ActivationWord::word);
  FLOTILLA_REQUIRE(found != std::end(activations), ErrorKind::bad_input, in_quotes(name),
                   " is not an activation; expected gelu_tanh, gelu, relu, swiglu or geglu");
  return found->activation;
}

NormKind parse_norm_kind(const std::string& name) {
  if (name == "rms") return NormKind::rms;
  FLOTILLA_REQUIRE(name == "layer", ErrorKind::bad_input, in_quotes(name), " is not a kind of norm; expected layer or rms");
  return NormKind::layer;
}

NormPlacement parse_norm(const std::string& name) {
  if (name == "post") return NormPlacement::post;
  FLOTILLA_REQUIRE(name == "pre", ErrorKind::bad_input, in_quotes(name), " is not a place of the norm; expected pre or post");
  return NormPlacement::pre;
}

void check_at(const Json& place, const model::Config& config) {
  try {
    model::check(config, "model");
  } catch (const Error& error) {
    place.refuse(error.what());
  }
  if (const auto wrong = model::wrong_with_frozen(config)) place.at("frozen").refuse(*wrong);
}

/// The members that may be left out, with where they go; the flags are true unless something is said.
template <class Config, class Visit>
void each_flag(Config& c, const Visit& visit) {
  visit("scaled_scores", c.scaled_scores);
  visit("qkv_bias", c.qkv_bias);
  visit("attention_output_bias", c.attention_output_bias);
  visit("feed_forward_bias", c.feed_forward_bias);
  visit("tied_head", c.tied_head);
}
/// Likewise those that are false unless something is said.
template <class Config, class Visit>
void each_extra(Config& c, const Visit& visit) {
  visit("query_key_norms", c.query_key_norms);
  visit("wide_head_norms", c.wide_head_norms);
  visit("alibi", c.alibi);
  visit("embedding_norm", c.embedding_norm);
  visit("parallel_residual", c.parallel_residual);
  visit("interleaved_qkv", c.interleaved_qkv);
  visit("scaled_embedding", c.scaled_embedding);
  visit("norm_offset", c.norm_offset);
  visit("output_norms", c.output_norms);
  visit("rotary_linear", c.rotary.linear);
  visit("rotary_yarn", c.rotary.yarn);
}
/// Numbers that are 0 unless something is said.
template <class Config, class Visit>
void each_extra_number(Config& c, const Visit& visit) {
  visit("rotary_window_theta", c.rotary.window_theta);
  visit("rotary_attention_factor", c.rotary.attention_factor);
  visit("score_width", c.score_width);
  visit("score_cap", c.score_cap);
  visit("logit_cap", c.logit_cap);
}
template <class Config, class Visit>
void each_rotary_number(Config& c, const Visit& visit) {
  visit("rotary_theta", c.rotary.theta);
  visit("rotary_factor", c.rotary.factor);
  visit("rotary_low_frequency", c.rotary.low_frequency);
  visit("rotary_high_frequency", c.rotary.high_frequency);
}

/// "lora": rank, alpha, targets and, where they are not 1, parts.
model::Lora lora_of(const Json& object) {
  object.expect_keys({"rank", "alpha", "targets", "qkv_parts", "up_parts"});
  model::Lora lora;
  lora.rank = object.get_int("rank", 1);
  lora.alpha = object.get_double("alpha");
  for (const Json& target : object.at("targets").items()) lora.targets.push_back(parse_at(target, model::parse_linear));
  if (object.has("qkv_parts")) lora.qkv_parts = object.get_int("qkv_parts", 1);
  if (object.has("up_parts")) lora.up_parts = object.get_int("up_parts", 1);
  return lora;
}

detail::Node lora_object(const model::Lora& lora) {
  detail::Node::Array targets;
  for (const auto target : lora.targets) targets.push_back(std::string{model::to_string(target)});
  detail::Node::Object object{{"rank", lora.rank}, {"alpha", lora.alpha}, {"targets", std::move(targets)}};
  if (lora.qkv_parts != 1) object.push_back({"qkv_parts", lora.qkv_parts});
  if (lora.up_parts != 1) object.push_back({"up_parts", lora.up_parts});
  return object;
}

/// "experts": count, per_token, width and, where there are any, what else a block has beside them.
model::Experts experts_of(const Json& object) {
  object.expect_keys({"count", "per_token", "width", "shared_width", "shared_gate", "dense_blocks"});
  model::Experts experts;
  experts.count = object.get_int("count", 1);
  experts.per_token = object.get_int("per_token", 1);
  experts.width = object.get_int("width", 1);
  if (object.has("shared_width")) experts.shared_width = object.get_int("shared_width", 1);
  if (object.has("shared_gate")) experts.shared_gate = object.get_bool("shared_gate");
  if (object.has("dense_blocks"))
    for (const Json& block : object.at("dense_blocks").items()) experts.dense_blocks.push_back(block.as_int(0));
  return experts;
}

detail::Node experts_object(const model::Experts& experts) {
  detail::Node::Object object{{"count", experts.count}, {"per_token", experts.per_token}, {"width", experts.width}};
  if (experts.shared_width > 0) object.push_back({"shared_width", experts.shared_width});
  if (experts.shared_gate) object.push_back({"shared_gate", true});
  if (!experts.dense_blocks.empty())
    object.push_back({"dense_blocks", detail::Node::Array(experts.dense_blocks.begin(), experts.dense_blocks.end())});
  return object;
}

void read_particulars(const Json& object, model::Config& c) {
  if (object.has("key_value_heads")) c.key_value_heads = object.get_int("key_value_heads", 1);
  if (c.key_value_heads == c.heads) c.key_value_heads = 0;
  if (object.has("head_width")) c.head_width = object.get_int("head_width", 1);
  each_extra(c, [&](const char* key, bool& flag) {
    if (object.has(key)) flag = object.get_bool(key);
  });
  each_extra_number(c, [&](const char* key, double& number) {
    if (object.has(key)) number = object.get_double(key);
  });
  if (object.has("norm_kind")) c.norm_kind = parse_at(object.at("norm_kind"), parse_norm_kind);
  if (object.has("windows"))
    for (const Json& window : object.at("windows").items()) c.windows.push_back(window.as_int(0));
  if (object.has("rotary_width")) c.rotary.width = object.get_int("rotary_width", 1);
  if (object.has("rotary_original_positions")) c.rotary.original_positions = object.get_int("rotary_original_positions");
  if (object.has("frozen"))
    for (const Json& pattern : object.at("frozen").items()) c.frozen.push_back(pattern.as_string());
  if (object.has("lora")) c.lora = lora_of(object.at("lora"));
  if (object.has("experts")) c.experts = experts_of(object.at("experts"));
  each_rotary_number(c, [&](const char* key, double& number) {
    if (object.has(key)) number = object.get_double(key);
  });
  each_flag(c, [&](const char* key, bool& flag) {
    if (object.has(key)) flag = object.get_bool(key);
  });
}

/// Of what older families lack, only what is there: their objects stay as they always were.
void write_particulars(const model::Config& c, detail::Node::Object& object) {
  if (c.key_value_heads > 0) object.push_back({"key_value_heads", c.key_value_heads});
  if (c.head_width > 0) object.push_back({"head_width", c.head_width});
  each_extra(c, [&](const char* key, bool flag) {
    if (flag) object.push_back({key, flag});
  });
  each_extra_number(c, [&](const char* key, double number) {
    if (number != 0) object.push_back({key, number});
  });
  if (c.norm_kind != NormKind::layer) object.push_back({"norm_kind", word_for(c.norm_kind)});
  if (!c.windows.empty()) object.push_back({"windows", detail::Node::Array(c.windows.begin(), c.windows.end())});
  if (c.rotates()) {
    each_rotary_number(c, [&](const char* key, double number) { object.push_back({key, number}); });
    object.push_back({"rotary_original_positions", c.rotary.original_positions});
    if (c.rotary.width > 0) object.push_back({"rotary_width", c.rotary.width});
  }
  each_flag(c, [&](const char* key, bool flag) {
    if (!flag) object.push_back({key, flag});
  });
  if (!c.frozen.empty()) object.push_back({"frozen", detail::Node::Array(c.frozen.begin(), c.frozen.end())});
  if (c.lora.on()) object.push_back({"lora", lora_object(c.lora)});
  if (c.experts.on()) object.push_back({"experts", experts_object(c.experts)});
}

model::Config config_of(const Json& object) {
  object.expect_keys({"name",
                      "family",
                      "blocks",
                      "hidden",
                      "heads",
                      "feed_forward",
                      "vocabulary",
                      "positions",
                      "position_offset",
                      "embedding_width",
                      "activation",
                      "norm",
                      "final_norm",
                      "norm_epsilon",
                      "dropout",
                      "attention_dropout",
                      "init_std",
                      "scaled_residual_init",
                      "key_value_heads",
                      "head_width",
                      "query_key_norms",
                      "wide_head_norms",
                      "alibi",
                      "embedding_norm",
                      "parallel_residual",
                      "interleaved_qkv",
                      "scaled_embedding",
                      "norm_offset",
                      "output_norms",
                      "rotary_linear",
                      "rotary_yarn",
                      "rotary_attention_factor",
                      "rotary_window_theta",
                      "score_width",
                      "score_cap",
                      "logit_cap",
                      "rotary_width",
                      "norm_kind",
                      "windows",
                      "rotary_theta",
                      "rotary_factor",
                      "rotary_low_frequency",
                      "rotary_high_frequency",
                      "rotary_original_positions",
                      "scaled_scores",
                      "qkv_bias",
                      "attention_output_bias",
                      "feed_forward_bias",
                      "tied_head",
                      "frozen",
                      "lora",
                      "experts"});
  model::Config c;
  c.name = get_string_or(object, "name", "");
  c.family = get_string_or(object, "family", "");
  c.blocks = object.get_int("blocks");
  c.hidden = object.get_int("hidden");
  c.heads = object.get_int("heads");
  c.feed_forward = object.get_int("feed_forward");
  c.vocabulary = object.get_int("vocabulary");
  c.positions = object.get_int("positions");
  c.position_offset = object.has("position_offset") ? object.get_int("position_offset") : 0;
  c.embedding_width = object.has("embedding_width") ? object.get_int("embedding_width") : c.hidden;
  c.activation = parse_at(object.at("activation"), parse_activation);
  c.norm = parse_at(object.at("norm"), parse_norm);
  for (auto [key, flag] : {std::pair{"final_norm", &c.final_norm}, {"scaled_residual_init", &c.scaled_residual_init}})
    if (object.has(key)) *flag = object.get_bool(key);
  for (auto [key, number] : {std::pair{"norm_epsilon", &c.norm_epsilon},
                             {"dropout", &c.dropout},
                             {"attention_dropout", &c.attention_dropout},
                             {"init_std", &c.init_std}})
    if (object.has(key)) *number = object.get_double(key);
  read_particulars(object, c);
  return c;
}

}  // namespace

detail::Node model_object(const model::Config& c) {
  detail::Node::Object object{
      {"name", c.name},
      {"family", c.family},
      {"blocks", c.blocks},
      {"hidden", c.hidden},
      {"heads", c.heads},
      {"feed_forward", c.feed_forward},
      {"vocabulary", c.vocabulary},
      {"positions", c.positions},
      {"position_offset", c.position_offset},
      {"embedding_width", c.embedding_width},
      {"activation", word_for(c.activation)},
      {"norm", word_for(c.norm)},
      {"final_norm", c.final_norm},
      {"norm_epsilon", c.norm_epsilon},
      {"dropout", c.dropout},
      {"attention_dropout", c.attention_dropout},
      {"init_std", c.init_std},
      {"scaled_residual_init", c.scaled_residual_init},
  };
  write_particulars(c, object);
  return object;
}

std::string model_to_json(const model::Config& config) { return detail::pretty(model_object(config)); }

model::Config model_from_json(const Json& place) {
  if (place.is_string()) return parse_at(place, [](const std::string& name) { return model::built_in(name); });
  const model::Config config = config_of(place);
  check_at(place, config);
  return config;
}

}  // namespace flotilla::files
