#include "flotilla/files/hugging_face.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/text.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace flotilla::files::hugging_face_test {
namespace {

using tests::expect_refused;
using tests::replaced;

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

const std::string gpt_neo_json = R"({
  "activation_function": "gelu_new", "architectures": ["GPTNeoForCausalLM"], "attention_dropout": 0, "bos_token_id": 50256,
  "attention_layers": ["global", "local", "global", "local", "global", "local", "global", "local", "global", "local", "global", "local"],
  "attention_types": [[["global", "local"], 6]], "embed_dropout": 0, "eos_token_id": 50256, "gradient_checkpointing": false,
  "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": null, "layer_norm_epsilon": 1e-05,
  "max_position_embeddings": 2048, "model_type": "gpt_neo", "num_heads": 12, "num_layers": 12, "resid_dropout": 0,
  "summary_activation": null, "use_cache": true, "vocab_size": 50257, "window_size": 256})";

const std::string llama_32_1b_json = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "head_dim": 64,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 128256})";

const std::string qwen3_06b_json = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
  "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

const std::string pythia_70m_json = R"({
  "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu", "hidden_size": 512,
  "initializer_range": 0.02, "intermediate_size": 2048, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox",
  "num_attention_heads": 8, "num_hidden_layers": 6, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
  "torch_dtype": "float16", "use_cache": true, "use_parallel_residual": true, "vocab_size": 50304})";

const std::string bloom_560m_json = R"({
  "apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0, "architectures": ["BloomForCausalLM"],
  "attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "bos_token_id": 1, "eos_token_id": 2, "hidden_dropout": 0.0,
  "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": true, "model_type": "bloom", "n_embed": 1024,
  "n_inner": null, "n_layer": 24, "num_attention_heads": 16, "offset_alibi": 100, "pad_token_id": 3, "pretraining_tp": 1,
  "seq_length": 2048, "skip_bias_add": true, "skip_bias_add_qkv": false, "slow_but_exact": false, "unk_token_id": 0, "use_cache": true,
  "vocab_size": 250880})";

model::Config read(const std::string& text, std::string_view name = "m") {
  return hugging_face_config_from_json(text, "config.json", name);
}

void refused(const std::string& json, std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
  expect_refused([&] { read(replaced(json, from, to)); }, part, other, "config.json");
}

TEST(HuggingFace, PublishedConfigsAreTheBuiltInModels) {
  EXPECT_EQ(read(gpt2_json, "gpt2"), model::built_in("gpt2"));
  EXPECT_EQ(read(opt_350m_json, "opt-350m"), model::built_in("opt-350m"));
  EXPECT_EQ(read(gpt_neo_json, "gpt-neo-125m"), model::built_in("gpt-neo-125m"));
  EXPECT_EQ(read(llama_32_1b_json, "llama-3.2-1b"), model::built_in("llama-3.2-1b"));
  EXPECT_EQ(read(qwen3_06b_json, "qwen3-0.6b"), model::built_in("qwen3-0.6b"));
  EXPECT_EQ(read(pythia_70m_json, "pythia-70m"), model::built_in("pythia-70m"));
  EXPECT_EQ(read(bloom_560m_json, "bloom-560m"), model::built_in("bloom-560m"));
}

TEST(HuggingFace, LlamasOfOtherGenerations) {
  EXPECT_EQ(read(R"({"model_type": "llama", "max_position_embeddings": 4096, "rms_norm_eps": 1e-5})", "llama-2-7b"),
            model::built_in("llama-2-7b"));
  EXPECT_EQ(
      read(R"({"model_type": "llama", "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "hidden_act": "silu",
                     "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_scaling": null, "rope_theta": 500000.0})",
           "llama-3-8b"),
      model::built_in("llama-3-8b"));
  // As transformers 5 writes it.
  EXPECT_EQ(read(R"({"model_type": "llama", "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
                     "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_parameters": {"rope_theta": 500000.0, "factor": 8.0,
                     "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}})",
                 "llama-3.1-8b"),
            model::built_in("llama-3.1-8b"));
  const model::Config biased = read(R"({"model_type": "llama", "attention_bias": true, "mlp_bias": true})");
  EXPECT_TRUE(biased.qkv_bias && biased.attention_output_bias && biased.feed_forward_bias);
}

TEST(HuggingFace, MistralIsLlamaWithAWindow) {
  const auto mistral = read(R"({"model_type": "mistral", "rms_norm_eps": 1e-5, "max_position_embeddings": 32768})", "mistral-7b");
  auto expected = read(R"({"model_type": "llama", "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
                           "max_position_embeddings": 32768, "rms_norm_eps": 1e-5})",
                       "mistral-7b");
  expected.family = "mistral";
  expected.windows = {4096};
  EXPECT_EQ(mistral, expected);
  EXPECT_TRUE(read(R"({"model_type": "mistral", "sliding_window": null})").windows.empty());
}

TEST(HuggingFace, Qwen2HasBiasesOnQueriesKeysAndValues) {
  const auto qwen = read(R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
                             "num_hidden_layers": 24, "num_key_value_heads": 2, "max_window_layers": 21, "sliding_window": 32768,
                             "use_sliding_window": false, "rope_theta": 1000000.0, "tie_word_embeddings": true, "vocab_size": 151936})");
  EXPECT_TRUE(qwen.qkv_bias && qwen.tied_head);
  EXPECT_FALSE(qwen.attention_output_bias || qwen.feed_forward_bias);
  EXPECT_EQ(qwen.key_value_heads, 2);
  EXPECT_EQ(qwen.positions, 32768);
  EXPECT_TRUE(qwen.windows.empty());
}

TEST(HuggingFace, Qwen2MayHaveWindowsInSomeBlocks) {
  const auto of = [](const char* more) {
    return read(text(R"({"model_type": "qwen2", "num_hidden_layers": 4, "sliding_window": 9, "use_sliding_window": true, )", more, "}"))
        .windows;
  };
  EXPECT_EQ(of(R"("max_window_layers": 3)"), (std::vector<int>{0, 0, 0, 9}));
  EXPECT_EQ(of(R"("max_window_layers": 0)"), (std::vector<int>{9}));
  EXPECT_EQ(of(R"("max_window_layers": 28)"), (std::vector<int>{}));
  const char* types = R"("layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"])";
  EXPECT_EQ(of(types), (std::vector<int>{0, 9}));
  expect_refused([&] { of(R"("layer_types": ["full_attention"])"); }, "/layer_types", "4 layers");
  expect_refused([&] { of(R"("layer_types": ["full", "full", "full", "full"])"); }, "/layer_types/0", "'full'");
}

TEST(HuggingFace, ModelsAreWrittenAsTheyAreRead) {
  for (const char* json :
       {R"({"model_type": "llama", "attention_bias": true})", R"({"model_type": "mistral", "sliding_window": 17})",
        R"({"model_type": "mistral", "sliding_window": null})", R"({"model_type": "qwen2"})",
        R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 5, "max_window_layers": 30})",
        R"({"model_type": "llama", "head_dim": 96, "num_attention_heads": 32})", R"({"model_type": "qwen3"})",
        R"({"model_type": "qwen3", "attention_bias": true, "head_dim": 6, "hidden_size": 24, "num_attention_heads": 4,
                               "num_key_value_heads": 2, "use_sliding_window": true, "sliding_window": 5, "max_window_layers": 30})",
        R"({"model_type": "gpt_neox"})", R"({"model_type": "gpt_neox", "rotary_pct": 1.0, "attention_bias": false,
                               "use_parallel_residual": false, "tie_word_embeddings": true, "hidden_act": "gelu_fast"})",
        R"({"model_type": "gpt_neox", "hidden_size": 30, "num_attention_heads": 5, "rotary_pct": 0.4})",
        R"({"model_type": "bloom", "n_layer": 3, "seq_length": 77})", R"({"model_type": "gemma2"})",
        R"({"model_type": "gemma2", "attn_logit_softcapping": null, "final_logit_softcapping": null,
                               "sliding_window": null, "query_pre_attn_scalar": 224, "attention_bias": true})",
        R"({"model_type": "gemma3_text"})", R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}})",
        R"({"model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 9, "tie_word_embeddings": false,
                               "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "final_logit_softcapping": 20.0})"}) {
    const auto config = read(json, "model");
    EXPECT_EQ(read(hugging_face_config_to_json(config, Precision::fp32, ""), "model"), config) << json;
  }
}

TEST(HuggingFace, Gemma2HasCapsUnlessTheyAreNull) {
  EXPECT_EQ(read(R"({"model_type": "gemma2"})", "gemma-2-2b"), model::built_in("gemma-2-2b"));
  const auto gemma = read(R"({"model_type": "gemma2", "attn_logit_softcapping": null, "final_logit_softcapping": null,
                              "query_pre_attn_scalar": 144, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
                              "layer_types": ["full_attention", "sliding_attention"], "num_hidden_layers": 2})");
  EXPECT_EQ(gemma.score_cap, 0);
  EXPECT_EQ(gemma.logit_cap, 0);
  EXPECT_EQ(gemma.score_width, 144);
  EXPECT_EQ(gemma.rotary.theta, 5000);
  EXPECT_EQ(gemma.windows, (std::vector<int>{0, 4096}));
  EXPECT_FALSE(gemma.turns_by_window(1));
}

/// As published, and as transformers 5 writes it.
TEST(HuggingFace, Gemma3TurnsWindowsByAnglesOfTheirOwn) {
  EXPECT_EQ(read(R"({"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "max_position_embeddings": 32768,
                     "num_attention_heads": 4, "num_key_value_heads": 1, "rope_local_base_freq": 10000, "rope_scaling": null,
                     "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144})",
                 "gemma-3-1b"),
            model::built_in("gemma-3-1b"));
  const auto gemma = read(R"({"model_type": "gemma3_text", "num_hidden_layers": 12, "rope_parameters": {
                              "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}}})");
  EXPECT_TRUE(gemma.rotary.linear);
  EXPECT_EQ(gemma.rotary.factor, 8);
  EXPECT_EQ(gemma.rotary.theta, 2e6);
  EXPECT_EQ(gemma.rotary.window_theta, 3e4);
  EXPECT_TRUE(gemma.turns_by_window(4));
  EXPECT_FALSE(gemma.turns_by_window(5));
  EXPECT_EQ(gemma.score_cap, 0);
}

TEST(HuggingFace, RefusesGemmaThatIsNotTheTextModel) {
  const auto refused = [](const char* family, const char* more, const char* where, const char* what) {
    expect_refused([&] { read(text(R"({"model_type": ")", family, R"(")", more, "}")); }, where, what);
  };
  refused("gemma3", R"(, "vision_config": {})", "/model_type", "without its part for images");
  refused("gemma3_text", R"(, "use_bidirectional_attention": true)", "/use_bidirectional_attention", "expected false");
  refused("gemma3_text", R"(, "attn_logit_softcapping": 50.0)", "/attn_logit_softcapping", "expected null");
  refused("gemma3_text", R"(, "rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}})", "/rope_parameters",
          "rope_type default");
  refused("gemma2", R"(, "hidden_activation": "relu")", "/hidden_activation", "gelu_pytorch_tanh");
  refused("gemma2", R"(, "query_pre_attn_scalar": 0)", "/query_pre_attn_scalar", "above 0");
  refused("gemma2", R"(, "attn_logit_softcapping": -1)", "score_cap", "above 0");
}

/// As transformers 5 writes them.
TEST(HuggingFace, PartsOfHeadsAreTurned) {
  const auto columns = [](const char* more) {
    return read(text(R"({"model_type": "gpt_neox", "hidden_size": 64, "num_attention_heads": 4)", more, "}")).rotary.width;
  };
  EXPECT_EQ(columns(""), 4);
  EXPECT_EQ(columns(R"(, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0, "rope_type": "default"})"), 8);
  EXPECT_EQ(columns(R"(, "rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 10000.0, "rope_type": "default"})"), 0);
  const auto bloom = read(R"({"model_type": "bloom", "hidden_size": 24, "n_head": 3, "n_layer": 2, "vocab_size": 61})");
  EXPECT_TRUE(bloom.alibi && bloom.embedding_norm && bloom.interleaved_qkv && bloom.tied_head);
  EXPECT_EQ(bloom.feed_forward, 96);
}

TEST(HuggingFace, WindowsAreAsFewAsSayIt) {
  const auto of = [](const char* types, int layers) {
    return read(text(R"({"model_type": "gpt_neo", "window_size": 7, "num_layers": )", layers, R"(, "attention_types": )", types, "}"))
        .windows;
  };
  EXPECT_EQ(of(R"([[["global", "local"], 3]])", 6), (std::vector<int>{0, 7}));
  EXPECT_EQ(of(R"([[["global"], 2], [["local"], 1]])", 3), (std::vector<int>{0, 0, 7}));
  EXPECT_EQ(of(R"([[["local"], 4]])", 4), (std::vector<int>{7}));
  EXPECT_EQ(of(R"([[["global"], 4]])", 4), (std::vector<int>{}));
  EXPECT_EQ(of(R"([[["global", "local"], 1], [["global"], 1]])", 3), (std::vector<int>{0, 7}));
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
  refused(gpt2_json, "\"gpt2\"", "\"bert\"",
          "/model_type: expected gpt2, opt, gpt_neo, llama, mistral, qwen2, qwen3, gpt_neox, bloom, gemma2, "
          "gemma3_text, mixtral, qwen2_moe, qwen3_moe, olmoe or deepseek",
          "bert");
  refused(gpt2_json, "\"model_type\": \"gpt2\", ", "", "'model_type' is missing", "");
  refused(gpt2_json, "\"gelu_new\"", "\"quick_gelu\"", "/activation_function: expected gelu, gelu_new", "'quick_gelu'");
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

TEST(HuggingFace, RefusesWhatItDoesNotTrainOfGptNeoAndLlama) {
  refused(gpt_neo_json, "[[[\"global\", \"local\"], 6]]", "[[[\"global\", \"far\"], 6]]",
          "/attention_types/0/0/1: expected global or local", "'far'");
  refused(gpt_neo_json, "[[[\"global\", \"local\"], 6]]", "[[[\"global\", \"local\"], 5]]", "/attention_types: ", "12 layers");
  refused(gpt_neo_json, "[[[\"global\", \"local\"], 6]]", "[[[\"global\", \"local\"], 7]]", "/attention_types: ", "12 layers");
  refused(gpt_neo_json, "[[[\"global\", \"local\"], 6]]", "[[[\"global\", \"local\"], 2000000000]]", "/attention_types/0/1: ", "");
  refused(gpt_neo_json, "[[[\"global\", \"local\"], 6]]", "[[[\"global\", \"local\"]]]", "/attention_types/0: ", "how often");
  refused(gpt_neo_json, "\"embed_dropout\": 0", "\"embed_dropout\": 0.1", "/embed_dropout: expected 0", "resid_dropout");
  refused(gpt_neo_json, "\"use_cache\": true", "\"tie_word_embeddings\": false", "/tie_word_embeddings: expected true", "");
  refused(llama_32_1b_json, "\"rope_type\": \"llama3\"", "\"rope_type\": \"longrope\"",
          "/rope_scaling/rope_type: expected default, linear, llama3 or yarn", "'longrope'");
  refused(llama_32_1b_json, "\"head_dim\": 64", "\"head_dim\": 63", "even", "63");
  refused(pythia_70m_json, "\"rotary_pct\": 0.25", "\"rotary_pct\": 1.5", "/rotary_pct: expected a part", "1.5");
  refused(pythia_70m_json, "\"rotary_pct\": 0.25", "\"rotary_pct\": 0.05", "rotary width is 3", "even");
  refused(pythia_70m_json, "\"gelu\"", "\"silu\"", "/hidden_act: expected gelu", "'silu'");
  refused(bloom_560m_json, "\"hidden_dropout\": 0.0", "\"hidden_dropout\": 0.1", "/hidden_dropout: expected 0", "0.1");
  refused(bloom_560m_json, "\"apply_residual_connection_post_layernorm\": false", "\"apply_residual_connection_post_layernorm\": true",
          "/apply_residual_connection_post_layernorm: expected false", "");
  refused(bloom_560m_json, "\"n_inner\": null", "\"n_inner\": 64", "/n_inner: expected 4096", "hidden_size");
  refused(llama_32_1b_json, "\"silu\"", "\"gelu\"", "/hidden_act: expected silu", "'gelu'");
  refused(llama_32_1b_json, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7", "key_value_heads is 7", "32");
  refused(llama_32_1b_json, "\"rope_theta\": 500000.0", "\"rope_theta\": 0", "/rope_theta: expected a number above 0", "");
  refused(llama_32_1b_json, "\"factor\": 32.0", "\"factor\": 0.5", "rotary factor is 0.5", "");
}

/// What has no default is not assumed, what means nothing is not passed over, and of two that differ none is dropped.
TEST(HuggingFace, AssumesNothingAboutHowBlocksTurn) {
  const auto refused = [](const std::string& more, const char* where, const char* what) {
    for (const char* family : {"llama", "qwen2", "mistral", "gpt_neox", "gemma2"})
      expect_refused([&] { read(text(R"({"model_type": ")", family, R"(", )", more, "}")); }, where, what);
  };
  refused(R"("rope_scaling": {"rope_type": "linear"})", "/rope_scaling: factor: is missing", "rope_type linear has no default");
  refused(R"("rope_parameters": {"type": "linear", "factor": null})", "/rope_parameters/factor: is missing", "");
  const std::pair<std::string, std::string> of_llama3[]{
      {"factor", "8.0"}, {"low_freq_factor", "1.0"}, {"high_freq_factor", "4.0"}, {"original_max_position_embeddings", "8192"}};
  for (const auto& [left_out, unused] : of_llama3) {
    std::string rope = R"("rope_scaling": {"rope_type": "llama3")";
    for (const auto& [key, value] : of_llama3)
      if (key != left_out) rope += text(", \"", key, "\": ", value);
    refused(rope + "}", left_out.c_str(), "is missing; rope_type llama3 has no default");
  }
  refused(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})", "original_max_position_embeddings: is missing", "");
  refused(R"("rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 32768})", "factor: is missing", "");
  refused(R"("rope_scaling": {"factor": 8.0})", "/rope_scaling/factor: means nothing to rope_type default", "leave it out");
  refused(R"("rope_scaling": {"rope_type": "default", "mrope_section": [16, 24, 24]})", "/rope_scaling/mrope_section", "means nothing");
  refused(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "mscale": 0.7})", "/mscale",
          "");
  refused(R"("rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "linear", "factor": 4.0})",
          "/rope_scaling: expected this or rope_parameters, not both", "");
}

TEST(HuggingFace, ReadsYarn) {
  const auto config = read(R"({"model_type": "qwen2", "rope_theta": 1000000.0, "rope_scaling": {"factor": 4.0,
                               "original_max_position_embeddings": 32768, "type": "yarn"}})");
  EXPECT_TRUE(config.rotary.yarn);
  EXPECT_EQ(config.rotary.factor, 4);
  EXPECT_EQ(config.rotary.original_positions, 32768);
  EXPECT_EQ(config.rotary.low_frequency, 1);
  EXPECT_EQ(config.rotary.high_frequency, 32);
  EXPECT_EQ(config.rotary.attention_factor, 0);
  const auto other = read(R"({"model_type": "llama", "rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5, "factor": 2.0,
                              "original_max_position_embeddings": 4096, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.25}})");
  EXPECT_EQ(other.rotary.high_frequency, 16);
  EXPECT_EQ(other.rotary.attention_factor, 1.25);
  for (const auto& one : {config, other}) EXPECT_EQ(read(hugging_face_config_to_json(one, Precision::fp32, ""), one.name), one);
}

TEST(HuggingFace, DropsNoWindowThatALayerIsSaidToHave) {
  const auto refused = [](const char* json) { expect_refused([&] { read(json); }, "/layer_types/1", "no window is given"); };
  refused(R"({"model_type": "qwen2", "num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"]})");
  refused(
      R"({"model_type": "gemma2", "num_hidden_layers": 2, "sliding_window": null, "layer_types": ["full_attention", "sliding_attention"]})");
}

TEST(HuggingFace, TurnsWholeHeadsUnlessTheFamilyTurnsAPart) {
  refused(llama_32_1b_json, "\"head_dim\": 64", "\"partial_rotary_factor\": 0.5", "/partial_rotary_factor: expected 1", "0.5");
  EXPECT_EQ(read(R"({"model_type": "gpt_neox", "hidden_size": 64, "num_attention_heads": 4, "partial_rotary_factor": 0.5})").rotary.width,
            8);
}

TEST(HuggingFace, RefusesImpossibleNumbers) {
  refused(gpt2_json, "\"n_head\": 12", "\"n_head\": 11", "heads", "");
  refused(gpt2_json, "\"n_head\": 12", "\"n_head\": 0", "/n_head: ", "at least 1");
  refused(gpt2_json, "\"n_head\": 12", "\"n_head\": \"12\"", "/n_head: ", "integer");
  refused(gpt2_json, "\"n_embd\": 768", "\"n_embd\": 2147483647", "config.json", "");
  refused(gpt2_json, "\"resid_pdrop\": 0.1", "\"resid_pdrop\": 1.5, \"x\": 1", "", "");
}

TEST(HuggingFace, IsNamedAfterItsFolder) {
  const tests::TemporaryFolder temporary;
  const auto folder = temporary / "my-model";
  std::filesystem::create_directory(folder);
  write_text(folder / "config.json", gpt2_json);
  write_text(folder / "other.json", gpt2_json);
  EXPECT_EQ(read_hugging_face_config(folder / "config.json").name, "my-model");
  EXPECT_EQ(read_hugging_face_config(folder / "other.json").name, "other");
}

}  // namespace
}  // namespace flotilla::files::hugging_face_test
