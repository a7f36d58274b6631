#include <array>

#include "flotilla/files/sailor.hpp"

namespace flotilla::files {
namespace {

/// Shapes as the artifact runs them, through Megatron's GPT code: from its configs/training_config_*.json and the models' cards, and
/// where these differ from what model_info/llm_info.json measured, as measured. So OPT has neither two spare positions nor, in the 350M
/// model, a projected embedding and post-norm; GPT-Neo has 20 heads and 50257 words (the config file: 32 and 128256).
struct ModelShape {
  const char *name, *family;
  int blocks, hidden, heads, feed_forward, vocabulary, positions;
};
constexpr std::array<ModelShape, 4> shapes{
    ModelShape{"OPT-350", "opt", 24, 1024, 16, 4096, 50272, 2048}, ModelShape{"GPT-Neo-2.7", "gpt_neo", 32, 2560, 20, 10240, 50257, 2048},
    ModelShape{"OPT-30", "opt", 48, 7168, 56, 28672, 50272, 2048}, ModelShape{"LLAMA-3-8", "llama", 32, 4096, 32, 14336, 128256, 8192}};

}  // namespace

std::optional<model::Config> sailor_model(std::string_view name) {
  for (const ModelShape& shape : shapes) {
    if (shape.name != name) continue;
    model::Config c;
    c.name = shape.name;
    c.family = shape.family;
    c.blocks = shape.blocks;
    c.hidden = c.embedding_width = shape.hidden;
    c.heads = shape.heads;
    c.feed_forward = shape.feed_forward;
    c.vocabulary = shape.vocabulary;
    c.positions = shape.positions;
    return c;
  }
  return std::nullopt;
}

bool sailor_counts_final_norm(const model::Config& model) { return model.family == "llama"; }

}  // namespace flotilla::files
