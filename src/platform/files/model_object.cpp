#include "model_object.hpp"

#include "document.hpp"
#include "flotilla/files/plan_file.hpp"

namespace flotilla::files {
namespace {

using model::Activation;
using model::NormPlacement;

const char* spelling(Activation a) { return a == Activation::relu ? "relu" : "gelu_tanh"; }
const char* spelling(NormPlacement n) { return n == NormPlacement::post ? "post" : "pre"; }

Activation parse_activation(const std::string& name) {
  if (name == "relu") return Activation::relu;
  FLOTILLA_REQUIRE(name == "gelu_tanh", ErrorKind::bad_input, "'", name, "' is not an activation; expected gelu_tanh or relu");
  return Activation::gelu_tanh;
}

NormPlacement parse_norm(const std::string& name) {
  if (name == "post") return NormPlacement::post;
  FLOTILLA_REQUIRE(name == "pre", ErrorKind::bad_input, "'", name, "' is not a place of the norm; expected pre or post");
  return NormPlacement::pre;
}

void check_at(const Json& place, const model::Config& config) {
  try {
    model::check(config, "model");
  } catch (const Error& error) {
    place.refuse(error.what());
  }
}

model::Config config_of(const Json& object) {
  object.expect_keys({"name", "family", "blocks", "hidden", "heads", "feed_forward", "vocabulary", "positions", "position_offset",
                      "embedding_width", "activation", "norm", "final_norm", "norm_epsilon", "dropout", "attention_dropout", "init_std",
                      "scaled_residual_init"});
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
  return c;
}

}  // namespace

detail::Node model_object(const model::Config& c) {
  return detail::Node::Object{
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
      {"activation", spelling(c.activation)},
      {"norm", spelling(c.norm)},
      {"final_norm", c.final_norm},
      {"norm_epsilon", c.norm_epsilon},
      {"dropout", c.dropout},
      {"attention_dropout", c.attention_dropout},
      {"init_std", c.init_std},
      {"scaled_residual_init", c.scaled_residual_init},
  };
}

std::string model_to_json(const model::Config& config) { return detail::pretty(model_object(config)); }

model::Config model_from_json(const Json& place) {
  if (place.is_string()) return parse_at(place, [](const std::string& name) { return model::built_in(name); });
  const model::Config config = config_of(place);
  check_at(place, config);
  return config;
}

}  // namespace flotilla::files
