#pragma once
#include "layer_cost_table.hpp"
#include "network.hpp"

namespace flotilla::search::pool {

/// Sets PoolType::widest. A tensor-parallel group stays inside a node unless the links between nodes say otherwise: unless a block on the
/// devices of twice as many nodes takes a tenth less than on those of one (two, four), collectives and all.
void widen_groups(DevicePool&, LayerCostTable&, Network&);

}  // namespace flotilla::search::pool
