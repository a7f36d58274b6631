#include "layer_operations.hpp"

#include <array>

namespace flotilla::simulate {
namespace {

using enum model::Operation;

constexpr std::array block_forward{attention_forward, mlp_forward, block_end_forward};
constexpr std::array block_backward{mlp_backward, attention_backward, block_begin_backward};
constexpr std::array block_input_half{mlp_backward_input, attention_backward_input, block_begin_backward};
constexpr std::array block_weights_half{mlp_backward_weights, attention_backward_weights};
constexpr std::array enter_forward{embedding_forward, embedding_end_forward};
constexpr std::array enter_backward{embedding_backward};
constexpr std::array leave_forward{head_forward, head_loss};
constexpr std::array leave_backward{head_backward, head_end_backward};
constexpr std::array leave_input_half{head_backward_input, head_end_backward};
constexpr std::array leave_weights_half{head_backward_weights};

}  // namespace

std::span<const model::Operation> forward_operations(const model::Config& model, int layer) {
  if (model.is_block(layer)) return block_forward;
  if (model.is_embedding(layer)) return enter_forward;
  return leave_forward;
}

std::span<const model::Operation> backward_operations(const model::Config& model, int layer) {
  if (model.is_block(layer)) return block_backward;
  if (model.is_embedding(layer)) return enter_backward;
  return leave_backward;
}

std::span<const model::Operation> input_half_operations(const model::Config& model, int layer) {
  if (model.is_block(layer)) return block_input_half;
  if (model.is_embedding(layer)) return enter_backward;
  return leave_input_half;
}

std::span<const model::Operation> weights_half_operations(const model::Config& model, int layer) {
  if (model.is_block(layer)) return block_weights_half;
  if (model.is_embedding(layer)) return {};
  return leave_weights_half;
}

LayerSums forward_sums(const model::Config& model, int layer) {
  if (model.is_block(layer)) return {2, model.hidden};
  if (model.is_embedding(layer)) return {1, model.embedding_width};
  return {};
}

LayerSums backward_sums(const model::Config& model, int layer) {
  if (model.is_block(layer)) return {2, model.hidden};
  if (model.is_embedding(layer)) return {};
  return {1, model.embedding_width};
}

}  // namespace flotilla::simulate
