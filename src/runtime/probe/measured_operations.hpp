#pragma once
#include <array>
#include <cstddef>

#include "flotilla/model/operations.hpp"

namespace flotilla::probe {

/// A backward pass and its halves, by model::Operation.
struct Split {
  model::Operation whole, input, weights;
};
inline constexpr std::array<Split, 3> splits{{
    {model::Operation::mlp_backward, model::Operation::mlp_backward_input, model::Operation::mlp_backward_weights},
    {model::Operation::attention_backward, model::Operation::attention_backward_input, model::Operation::attention_backward_weights},
    {model::Operation::head_backward, model::Operation::head_backward_input, model::Operation::head_backward_weights},
}};

/// What a probe measures: the operations of every training step, each in its place in model::Operation, then the halves.
inline constexpr std::size_t whole_count = model::operation_count, measured_count = whole_count + 2 * splits.size();

constexpr model::Operation measured_operation(std::size_t index) {
  if (index < whole_count) return static_cast<model::Operation>(index);
  const Split& split = splits[(index - whole_count) / 2];
  return (index - whole_count) % 2 == 0 ? split.input : split.weights;
}
/// Of an operation that is measured.
constexpr std::size_t measured_index(model::Operation operation) {
  std::size_t index = 0;
  while (index + 1 < measured_count && measured_operation(index) != operation) ++index;
  return index;
}

}  // namespace flotilla::probe
