#pragma once
#include <vector>

#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::simulate {

/// The operations of a layer and the sums between them, as program::lower lists them one after the other for a microbatch: compute queues
/// run in order, so within a microbatch nothing of them overlaps.
LayerBound bound_of_layer(const ProfileCost&, const model::Config&, int layer, const model::LayerShape&, plan::Recompute,
                          const std::string& device_type, const std::vector<Rank>& devices);

/// Elements of the layers [first, last) that a device of tensor index 0 holds, each tensor once.
std::int64_t elements_of(const model::Config&, int first, int last, int tensor_parallel);

/// Persistent state, what is kept of `in_flight` microbatches and the head's logits: they are all alive at the end of a forward pass.
Bytes bound_of_arena(const model::Config&, int first, int last, const model::LayerShape&, plan::Recompute, int in_flight);

/// At most the iteration time of the lowered plan: the busiest stage's work behind the fill before it and the drain after it, then the word
/// table's sum and the optimizer; or its work up to the last microbatch's backward pass, then all of its gradient sums.
Seconds bound_of_plan(const Forecaster&, const ProfileCost&, const plan::Plan&);

}  // namespace flotilla::simulate
