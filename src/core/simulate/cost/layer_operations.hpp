#pragma once
#include <span>

#include "flotilla/model/config.hpp"
#include "flotilla/model/operations.hpp"

namespace flotilla::simulate {

/// The operations of a layer's forward or backward pass, in order; sums over the tensor-parallel group stand between them (operations.hpp).
std::span<const model::Operation> forward_operations(const model::Config&, int layer);
std::span<const model::Operation> backward_operations(const model::Config&, int layer);
/// Of a backward pass in two halves (not the embedding's, which is never split): those before the input's gradient is there, and the
/// others.
std::span<const model::Operation> input_half_operations(const model::Config&, int layer);
std::span<const model::Operation> weights_half_operations(const model::Config&, int layer);
/// All-reduces over the tensor-parallel group in a pass, of (tokens, width) elements each.
struct LayerSums {
  int count = 0;
  int width = 0;
};
LayerSums forward_sums(const model::Config&, int layer);
LayerSums backward_sums(const model::Config&, int layer);

}  // namespace flotilla::simulate
