#include "flotilla/files/hugging_face.hpp"

#include <gtest/gtest.h>

#include "files/expect_error.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::files {
namespace {

using testing::expect_refused;
using testing::replaced;

// As published with the models, keys that only concern generation included.
const std::string gpt2_json = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1,
  "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
  "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_type": "cls_index", "vocab_size": 50257,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "n_inner": null})";

const std::string opt_350m_json = R"({
  "_name_or_path": "opt-350m", "_remove_final_layer_norm": false, "activation_dropout": 0.0, "activation_function": "relu",
  "architectures": ["OPTForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": false, "dropout": 0.1,
  "eos_token_id": 2, "ffn_dim": 4096, "hidden_size": 1024, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
  "model_type": "opt", "num_attention_heads": 16, "num_hidden_layers": 24, "pad_token_id": 1, "prefix": "</s>",
  "torch_dtype": "float16", "use_cache": true, "vocab_size": 50272, "word_embed_proj_dim": 512})";

model::Config read(const std::string& text, std::string_view name = "m") {
  return hugging_face_config_from_json(text, "config.json", name);
}

void refused(const std::string& json, std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
  expect_refused([&] { read(replaced(json, from, to)); }, part, other, "config.json");
}

TEST(HuggingFace, PublishedConfigsAreTheBuiltInModels) {
  EXPECT_EQ(read(gpt2_json, "gpt2"), model::built_in("gpt2"));
  EXPECT_EQ(read(opt_350m_json, "opt-350m"), model::built_in("opt-350m"));
}

TEST(HuggingFace, AbsentKeysHaveHuggingFacesDefaults) {
  EXPECT_EQ(read(R"({"model_type": "gpt2"})", "gpt2"), model::built_in("gpt2"));
  EXPECT_EQ(read(R"({"model_type": "opt"})", "opt-125m"), model::built_in("opt-125m"));
}

TEST(HuggingFace, ReadsWhatDiffers) {
  const model::Config c = read(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_inner": 100, "activation_function": "relu",
                                  "resid_pdrop": 0, "embd_pdrop": 0.0, "layer_norm_epsilon": 1e-6})");
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.embedding_width, 64);
  EXPECT_EQ(c.feed_forward, 100);
  EXPECT_EQ(c.activation, model::Activation::relu);
  EXPECT_EQ(c.dropout, 0);
  EXPECT_EQ(c.norm_epsilon, 1e-6);
  const model::Config o = read(R"({"model_type": "opt", "_remove_final_layer_norm": true, "dropout": 0.25})");
  EXPECT_FALSE(o.final_norm);
  EXPECT_EQ(o.norm, model::NormPlacement::pre);
  EXPECT_EQ(o.dropout, 0.25);
}

TEST(HuggingFace, RefusesWhatFlotillaDoesNotImplement) {
  refused(gpt2_json, "\"gpt2\"", "\"llama\"", "/model_type: expected gpt2 or opt", "llama");
  refused(gpt2_json, "\"model_type\": \"gpt2\", ", "", "'model_type' is missing", "");
  refused(gpt2_json, "\"gelu_new\"", "\"gelu\"", "/activation_function: expected gelu_new", "'gelu'");
  refused(gpt2_json, "\"embd_pdrop\": 0.1", "\"embd_pdrop\": 0.2", "/embd_pdrop: expected 0.1", "resid_pdrop");
  refused(gpt2_json, "\"n_ctx\": 1024", "\"tie_word_embeddings\": false", "/tie_word_embeddings: expected true", "");
  refused(gpt2_json, "\"n_ctx\": 1024", "\"scale_attn_weights\": false", "/scale_attn_weights: expected true", "");
  refused(gpt2_json, "\"n_ctx\": 1024", "\"scale_attn_by_inverse_layer_idx\": true", "/scale_attn_by_inverse_layer_idx: expected false",
          "");
  refused(gpt2_json, "\"n_ctx\": 1024", "\"add_cross_attention\": true", "/add_cross_attention: expected false", "");
  refused(opt_350m_json, "\"layerdrop\": 0.0", "\"layerdrop\": 0.1", "/layerdrop: expected 0", "0.1");
  refused(opt_350m_json, "\"layerdrop\": 0.0", "\"enable_bias\": false", "/enable_bias: expected true", "");
  refused(opt_350m_json, "\"layerdrop\": 0.0", "\"layer_norm_elementwise_affine\": false", "/layer_norm_elementwise_affine", "");
}

TEST(HuggingFace, RefusesImpossibleNumbers) {
  refused(gpt2_json, "\"n_head\": 12", "\"n_head\": 11", "heads", "");
  refused(gpt2_json, "\"n_head\": 12", "\"n_head\": 0", "/n_head: ", "at least 1");
  refused(gpt2_json, "\"n_head\": 12", "\"n_head\": \"12\"", "/n_head: ", "integer");
  refused(gpt2_json, "\"n_embd\": 768", "\"n_embd\": 2147483647", "config.json", "");
  refused(gpt2_json, "\"resid_pdrop\": 0.1", "\"resid_pdrop\": 1.5, \"x\": 1", "", "");
}

TEST(HuggingFace, IsNamedAfterItsFolder) {
  const auto folder = std::filesystem::path{::testing::TempDir()} / "flotilla-hf-my-model";
  std::filesystem::create_directory(folder);
  write_text(folder / "config.json", gpt2_json);
  write_text(folder / "other.json", gpt2_json);
  EXPECT_EQ(read_hugging_face_config(folder / "config.json").name, "flotilla-hf-my-model");
  EXPECT_EQ(read_hugging_face_config(folder / "other.json").name, "other");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace flotilla::files
