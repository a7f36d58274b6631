#include <array>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/model/operations.hpp"

namespace flotilla::model {
namespace {

constexpr std::array<std::string_view, all_operation_count> names{"embedding_forward",
                                                                  "embedding_end_forward",
                                                                  "attention_forward",
                                                                  "mlp_forward",
                                                                  "block_end_forward",
                                                                  "head_forward",
                                                                  "head_loss",
                                                                  "head_backward",
                                                                  "head_end_backward",
                                                                  "mlp_backward",
                                                                  "attention_backward",
                                                                  "block_begin_backward",
                                                                  "embedding_backward",
                                                                  "block_again",
                                                                  "attention_begin_forward",
                                                                  "mlp_begin_forward",
                                                                  "head_begin_forward",
                                                                  "mlp_begin_backward",
                                                                  "attention_begin_backward",
                                                                  "embedding_begin_backward",
                                                                  "mlp_begin_weights",
                                                                  "attention_begin_weights",
                                                                  "mlp_backward_input",
                                                                  "mlp_backward_weights",
                                                                  "attention_backward_input",
                                                                  "attention_backward_weights",
                                                                  "head_backward_input",
                                                                  "head_backward_weights"};

}  // namespace

std::string_view to_string(Operation operation) { return names[static_cast<std::size_t>(operation)]; }

std::optional<Operation> whole_of(Operation operation) {
  switch (operation) {
    case Operation::mlp_backward_input:
    case Operation::mlp_backward_weights: return Operation::mlp_backward;
    case Operation::attention_backward_input:
    case Operation::attention_backward_weights: return Operation::attention_backward;
    case Operation::head_backward_input:
    case Operation::head_backward_weights: return Operation::head_backward;
    default: return std::nullopt;
  }
}

std::optional<Operation> input_half_of(Operation operation) {
  switch (operation) {
    case Operation::mlp_backward: return Operation::mlp_backward_input;
    case Operation::attention_backward: return Operation::attention_backward_input;
    case Operation::head_backward: return Operation::head_backward_input;
    default: return std::nullopt;
  }
}

bool makes_weights_gradients(Operation operation) {
  const auto whole = whole_of(operation);
  return whole ? input_half_of(*whole) != operation : input_half_of(operation).has_value();
}

Operation parse_operation(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Operation>(i);
  throw Error{ErrorKind::bad_input, text(in_quotes(name), " is not an operation; expected one like 'attention_forward'")};
}

}  // namespace flotilla::model
