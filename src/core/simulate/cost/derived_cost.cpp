#include "derived_cost.hpp"

#include <algorithm>

#include "operation_cost.hpp"

namespace flotilla::simulate {
namespace {

bool is_measured(model::Operation operation) { return static_cast<int>(operation) < model::operation_count; }

model::LayerShape undivided(model::LayerShape shape) {
  shape.sequence_parallel = false;
  return shape;
}

double moved(const model::Config& model, const model::LayerShape& shape, model::Operation operation) {
  return static_cast<double>(model::traffic(model, shape, operation).count);
}

}  // namespace

bool is_derived(model::Operation operation, const model::LayerShape& shape) {
  return !model::whole_of(operation) && (!is_measured(operation) || shape.sequence_parallel);
}

Cost derived_cost(const model::Config& model, model::Operation operation, const model::LayerShape& shape,
                  const std::function<Cost(model::Operation, const model::LayerShape&)>& plain) {
  const model::LayerShape whole = undivided(shape);
  if (!is_measured(operation)) {
    constexpr auto known = model::Operation::block_end_forward;
    const Cost cost = plain(known, whole);
    return {cost.time * (moved(model, shape, operation) / moved(model, whole, known)), cost.relative_error + scaled_error, true};
  }
  const Cost cost = plain(operation, whole);
  // Most products are the same ones, and that fewer rows pass beside them is within the error of their time; projections are of rows.
  const double flops = model::flops(model, whole, operation), rows = moved(model, shape, operation) / moved(model, whole, operation);
  const double products = flops > 0 ? model::flops(model, shape, operation) / flops : 0;
  return {cost.time * std::min(1.0, std::max(products, rows)), cost.relative_error, true};
}

}  // namespace flotilla::simulate
