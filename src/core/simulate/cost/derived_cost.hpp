#pragma once
#include <functional>

#include "flotilla/model/operations.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

/// Whether an operation's time follows from those of the operations that probes measure (model::operation_count), with tokens not shared.
bool is_derived(model::Operation, const model::LayerShape&);

/// By `plain`, the cost of an operation that is not derived: what moves rows through memory does it at the rate of block_end_forward; where
/// tokens are shared between products, an operation costs in proportion to its FLOPs or its bytes, what is more.
Cost derived_cost(const model::Config&, model::Operation, const model::LayerShape&,
                  const std::function<Cost(model::Operation, const model::LayerShape&)>& plain);

}  // namespace flotilla::simulate
