#include "flotilla/files/hugging_face.hpp"

#include <cstdint>
#include <optional>

#include "document.hpp"

namespace flotilla::files {
namespace {

/// Members of a config.json. Hugging Face leaves out, or sets to null, what has its default.
class Keys {
 public:
  explicit Keys(Json object) : object_{std::move(object)} {}

  int integer(std::string_view key, int otherwise, int least = 1) const { return given(key) ? object_.get_int(key, least) : otherwise; }
  double number(std::string_view key, double otherwise) const { return given(key) ? object_.get_double(key) : otherwise; }
  bool flag(std::string_view key, bool otherwise) const { return given(key) ? object_.get_bool(key) : otherwise; }
  std::string name(std::string_view key, std::string_view otherwise) const {
    return given(key) ? object_.get_string(key) : std::string{otherwise};
  }

  void require_flag(std::string_view key, bool expected, bool otherwise) const {
    if (flag(key, otherwise) == expected) return;
    refuse(key, text("expected ", expected ? "true" : "false", "; Flotilla does not train the other kind"));
  }
  void require_number(std::string_view key, double expected, double otherwise) const {
    if (number(key, otherwise) != expected) refuse(key, text("expected ", expected, ", got ", number(key, otherwise)));
  }
  [[noreturn]] void refuse(std::string_view key, const std::string& what) const {
    if (object_.has(key)) object_.at(key).refuse(what);
    object_.refuse(text(key, ": ", what));
  }

 private:
  bool given(std::string_view key) const { return object_.has(key) && !object_.at(key).is_null(); }
  Json object_;
};

model::Activation activation(const Keys& keys, std::string_view otherwise) {
  const std::string name = keys.name("activation_function", otherwise);
  if (name == "relu") return model::Activation::relu;
  if (name != "gelu_new" && name != "gelu_pytorch_tanh")
    keys.refuse("activation_function", text("expected gelu_new, gelu_pytorch_tanh or relu, got '", name, "'"));
  return model::Activation::gelu_tanh;
}

void gpt2(const Keys& keys, model::Config& c) {
  c.blocks = keys.integer("n_layer", 12);
  c.hidden = c.embedding_width = keys.integer("n_embd", 768);
  c.heads = keys.integer("n_head", 12);
  const std::int64_t four_times = std::int64_t{4} * c.hidden;
  c.feed_forward = keys.integer("n_inner", static_cast<int>(std::min<std::int64_t>(four_times, INT32_MAX)));
  c.vocabulary = keys.integer("vocab_size", 50257);
  c.positions = keys.integer("n_positions", 1024);
  c.activation = activation(keys, "gelu_new");
  c.norm_epsilon = keys.number("layer_norm_epsilon", 1e-5);
  c.dropout = keys.number("resid_pdrop", 0.1);
  if (keys.number("embd_pdrop", 0.1) != c.dropout) keys.refuse("embd_pdrop", text("expected ", c.dropout, ", the value of resid_pdrop"));
  c.attention_dropout = keys.number("attn_pdrop", 0.1);
  c.init_std = keys.number("initializer_range", 0.02);
  c.scaled_residual_init = true;
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
  c.activation = activation(keys, "relu");
  const bool norm_first = keys.flag("do_layer_norm_before", true);
  c.norm = norm_first ? model::NormPlacement::pre : model::NormPlacement::post;
  c.final_norm = norm_first && !keys.flag("_remove_final_layer_norm", false);
  c.dropout = keys.number("dropout", 0.1);
  c.attention_dropout = keys.number("attention_dropout", 0);
  c.init_std = keys.number("init_std", 0.02);
  keys.require_flag("enable_bias", true, true);
  keys.require_flag("layer_norm_elementwise_affine", true, true);
  keys.require_number("layerdrop", 0, 0);
}

model::Config config_of(const Json& document, std::string_view name) {
  const Keys keys{document};
  model::Config config;
  config.name = name;
  config.family = document.get_string("model_type");
  keys.require_flag("tie_word_embeddings", true, true);
  keys.require_flag("is_encoder_decoder", false, false);
  if (config.family == "gpt2")
    gpt2(keys, config);
  else if (config.family == "opt")
    opt(keys, config);
  else
    document.at("model_type").refuse("expected gpt2 or opt, got " + document.at("model_type").one_line());
  model::check(config, document.source());
  return config;
}

}  // namespace

model::Config hugging_face_config_from_json(std::string_view text, std::string_view source, std::string_view name) {
  return config_of(Json::parse(text, source), name);
}

model::Config read_hugging_face_config(const std::filesystem::path& path) {
  const std::filesystem::path full = std::filesystem::absolute(path);
  const std::filesystem::path named = path.filename() == "config.json" ? full.parent_path().filename() : full.stem();
  return config_of(Json::read(path), named.string());
}

}  // namespace flotilla::files
