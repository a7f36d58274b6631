#pragma once
#include <array>
#include <vector>

#include "flotilla/compute/backend.hpp"

namespace flotilla::compute::cpu {

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
  norm2_weight,
  norm2_bias,
  up_weight,
  up_bias,
  down_weight,
  down_bias,
  head_norm_weight,
  head_norm_bias,
  project_out,
  lm_head,
};
inline constexpr std::size_t parameter_kinds = 23;

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

}  // namespace flotilla::compute::cpu
