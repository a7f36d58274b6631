#pragma once
#include <vector>

#include "elements.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::simulate {

/// The operations of a layer and the sums between them, as program::lower lists them one after the other for a microbatch: compute queues
/// run in order, so within a microbatch nothing of them overlaps.
LayerBound bound_of_layer(const ProfileCost&, const model::Config&, int layer, const model::LayerShape&, plan::Recompute,
                          const std::string& device_type, const std::vector<Rank>& devices);

/// Persistent state, what is kept of `in_flight` microbatches, and the head's logits or a block's intermediates: all alive at one time.
Bytes bound_of_arena(const model::Config&, const Elements&, int first, int last, const model::LayerShape&, plan::Recompute, int in_flight);

}  // namespace flotilla::simulate
