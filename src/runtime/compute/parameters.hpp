#pragma once
#include <array>
#include <vector>

#include "flotilla/compute/backend.hpp"

namespace flotilla::compute {

/// A tensor's place in its layer.
enum class Parameter {
  token_embedding,
  position,
  embedding_norm_weight,
  embedding_norm_bias,
  project_in,
  norm1_weight,
  norm1_bias,
  qkv_weight,
  qkv_bias,
  query_norm_weight,
  key_norm_weight,
  out_weight,
  out_bias,
  attention_norm_weight,
  attention_norm_bias,
  norm2_weight,
  norm2_bias,
  up_weight,
  up_bias,
  down_weight,
  down_bias,
  feed_forward_norm_weight,
  feed_forward_norm_bias,
  head_norm_weight,
  head_norm_bias,
  project_out,
  lm_head,
  qkv_lora_a,  // A and B of model::Linear, in its order
  qkv_lora_b,
  out_lora_a,
  out_lora_b,
  up_lora_a,
  up_lora_b,
  down_lora_a,
  down_lora_b,
};
inline constexpr std::size_t parameter_kinds = 35;

constexpr Parameter lora_a(model::Linear linear) {
  return static_cast<Parameter>(static_cast<int>(Parameter::qkv_lora_a) + 2 * static_cast<int>(linear));
}
constexpr Parameter lora_b(model::Linear linear) { return static_cast<Parameter>(static_cast<int>(lora_a(linear)) + 1); }
constexpr Parameter weight_of(model::Linear linear) {
  constexpr std::array weights{Parameter::qkv_weight, Parameter::out_weight, Parameter::up_weight, Parameter::down_weight};
  return weights[static_cast<std::size_t>(linear)];
}

/// Where each layer's tensors stand in model::tensors().
class ParameterIndex {
 public:
  explicit ParameterIndex(const model::Config&);
  /// Offset in elements of a tensor within the part that holds it. Asserts that it is there.
  std::int64_t offset(const program::Part& part, int layer, Parameter kind) const { return slot(part, layer, kind).offset; }
  /// Whether the tensor has a gradient.
  bool trained(const program::Part& part, int layer, Parameter kind) const { return slot(part, layer, kind).trained; }

 private:
  const program::Part::Slot& slot(const program::Part&, int layer, Parameter) const;

  std::vector<std::array<int, parameter_kinds>> by_layer_;
};

}  // namespace flotilla::compute
