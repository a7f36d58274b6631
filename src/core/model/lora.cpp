#include "flotilla/model/lora.hpp"

#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/model/adapters.hpp"

namespace flotilla::model {
namespace {

constexpr std::array<std::string_view, linears.size()> linear_names{"attention.qkv", "attention.out", "feed_forward.up",
                                                                    "feed_forward.down"};

/// Queries, keys and values as qkv_width has them.
std::vector<AdapterPiece> pieces_of_qkv(const Config& c, const LayerShape& s) {
  const std::int64_t head = c.head_size(), queries = c.queries_per_group() * head;
  const std::int64_t bands = c.grouped_qkv() ? local_groups(c, s) : 1, heads = c.grouped_qkv() ? 1 : local_heads(c, s);
  std::vector<AdapterPiece> pieces;
  for (std::int64_t band = 0, first = 0; band < bands; ++band)
    for (int part = 0; part < 3; ++part) {
      pieces.push_back({part, first, part == 0 ? queries * heads : head * heads});
      first += pieces.back().count;
    }
  return pieces;
}

/// Whether the operation is a half that makes weights' gradients.
bool is_weights_half(Operation operation) {
  return operation == Operation::attention_backward_weights || operation == Operation::mlp_backward_weights;
}
bool is_input_half(Operation operation) {
  return operation == Operation::attention_backward_input || operation == Operation::mlp_backward_input;
}
bool is_forward(Operation operation) { return operation == Operation::attention_forward || operation == Operation::mlp_forward; }

}  // namespace

std::string_view to_string(Linear linear) { return linear_names[static_cast<std::size_t>(linear)]; }

Linear parse_linear(std::string_view name) {
  for (const Linear linear : linears)
    if (to_string(linear) == name) return linear;
  throw Error{
      ErrorKind::bad_input,
      text(in_quotes(name), " is no linear layer of a block; expected attention.qkv, attention.out, feed_forward.up or feed_forward.down")};
}

AdapterShape adapter_shape(const Config& c, const LayerShape& s, Linear linear) {
  const std::int64_t d = c.hidden, attention = std::int64_t{local_heads(c, s)} * c.head_size(), columns = local_columns(c, s);
  AdapterShape shape{c.lora.parts(linear), c.lora.rank};
  switch (linear) {
    case Linear::qkv: shape.in = d, shape.out = qkv_width(c, s); break;
    case Linear::out: shape.in = attention, shape.out = d; break;
    case Linear::up: shape.in = d, shape.out = up_width(c, s); break;
    case Linear::down: shape.in = columns, shape.out = d; break;
  }
  if (shape.parts == 1)
    shape.pieces = {{0, 0, shape.out}};
  else if (linear == Linear::qkv)
    shape.pieces = pieces_of_qkv(c, s);
  else
    shape.pieces = {{0, 0, columns}, {1, columns, columns}};
  return shape;
}

std::vector<Linear> linears_of(Operation operation) {
  switch (whole_of(operation).value_or(operation)) {
    case Operation::attention_forward:
    case Operation::attention_backward: return {Linear::qkv, Linear::out};
    case Operation::mlp_forward:
    case Operation::mlp_backward: return {Linear::up, Linear::down};
    default: return {};
  }
}

double adapter_flops(const Config& c, const LayerShape& s, Operation operation) {
  if (!c.lora.on()) return 0;
  double sum = 0;
  for (const Linear linear : linears_of(operation)) {
    if (!c.lora.adapts(linear)) continue;
    const AdapterShape a = adapter_shape(c, s, linear);
    const double n = static_cast<double>(s.tokens()), in = 2 * n * static_cast<double>(a.in * a.width());
    const double out = 2 * n * static_cast<double>(a.out * a.rank);
    if (is_forward(operation) || is_input_half(operation))
      sum += in + out;
    else
      sum += is_weights_half(operation) ? 2 * in + 2 * out : 3 * in + 2 * out;
  }
  return sum;
}

Bytes adapter_workspace(const Config& c, const LayerShape& s, Operation operation) {
  if (!c.lora.on()) return {};
  const std::int64_t of_each = is_forward(operation) || is_input_half(operation) ? 1 : 2;
  Bytes sum;
  for (const Linear linear : linears_of(operation))
    if (c.lora.adapts(linear)) sum += of_each * align_up(element_size(s.precision) * (s.tokens() * c.lora.parts(linear) * c.lora.rank), 64);
  return sum;
}

}  // namespace flotilla::model
