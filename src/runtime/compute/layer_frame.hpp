#pragma once
#include "flotilla/base/error.hpp"
#include "layer_dimensions.hpp"

namespace flotilla::compute {

/// A task's shapes and operands, for one element type. Addresses are in the device's memory. Asserts that operands and parts are there.
template <class E>
class LayerFrame {
 public:
  LayerFrame(const Setup& setup, const ParameterIndex& parameters, const Task& t)
      : task{t},
        shape{layer_shape(setup, t.sequences)},
        n{shape.tokens()},
        rows{rows_between_products(shape).count()},
        first_row{rows_between_products(shape).first},
        model_{setup.model},
        parameters_{parameters} {
    if (model_.is_block(t.layer)) block = model::block_layout(model_, shape, has(program::Role::again));
  }

  bool has(program::Role role) const { return task.operand<std::byte>(role) != nullptr; }
  template <class T = E>
  T* at(program::Role role) const {
    T* operand = task.operand<T>(role);
    FLOTILLA_ASSERT(operand, model::to_string(task.operation), " lacks operand ", static_cast<int>(role));
    return operand;
  }
  /// Of what the layer keeps, or drops and computes again.
  template <class T = E>
  T* saved(const model::Segment& segment) const {
    return reinterpret_cast<T*>(at<std::byte>(segment.again ? program::Role::again : program::Role::saved) + segment.offset.count);
  }
  E* kept(const model::Segment& segment) const { return reinterpret_cast<E*>(at<std::byte>(program::Role::kept) + segment.offset.count); }
  /// Whether the inputs of a product are gathered beside the gradient; where passes are split, the weights' half does it.
  bool gathers() const { return has(program::Role::gathered); }
  /// Where this rank's rows begin in a buffer of all tokens, `width` elements each.
  E* own(program::Role role, std::int64_t width) const { return at(role) + first_row * width; }
  /// Of documents, by token; null: one document a sequence.
  const std::int32_t* starts() const { return task.operand<std::int32_t>(program::Role::document_starts); }

  const E* weight(Parameter kind) const {
    const auto role = is_tied(kind) ? program::Role::token_embedding_weights : program::Role::weights;
    return at(role) + parameters_.offset(part_of(kind), layer_of(kind), kind);
  }
  const E* weight_if(bool present, Parameter kind) const { return present ? weight(kind) : nullptr; }
  /// Null where the tensor is frozen.
  float* gradient(Parameter kind) const {
    const auto role = is_tied(kind) ? program::Role::token_embedding_gradients : program::Role::gradients;
    if (!parameters_.trained(part_of(kind), layer_of(kind), kind)) return nullptr;
    return at<float>(role) + parameters_.offset(part_of(kind), layer_of(kind), kind);
  }

  const Task& task;
  model::LayerShape shape;
  std::int64_t n;     ///< tokens
  std::int64_t rows;  ///< of them, those that this rank holds between products: [first_row, first_row + rows)
  std::int64_t first_row;
  /// Of a block. It drops values where it is handed a place for what it drops.
  model::BlockLayout block{};

 private:
  /// A token embedding that two layers use is in a part of its own; it belongs to layer 0 even where the head uses it.
  bool is_tied(Parameter kind) const { return kind == Parameter::token_embedding && model_.tied_head; }
  int layer_of(Parameter kind) const { return is_tied(kind) ? 0 : task.layer; }
  const program::Part& part_of(Parameter kind) const {
    const program::Part* part = is_tied(kind) ? task.token_embedding_part : task.part;
    FLOTILLA_ASSERT(part, model::to_string(task.operation), " lacks a part");
    return *part;
  }

  const model::Config& model_;
  const ParameterIndex& parameters_;
};

}  // namespace flotilla::compute
