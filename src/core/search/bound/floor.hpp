#pragma once
#include "flotilla/search/bound_proof.hpp"
#include "packing.hpp"
#include "pool/layer_cost_table.hpp"
#include "stage_demand.hpp"

/// What no plan of a pool is below, and why. docs/design/planning-bound.md derives it.
namespace flotilla::search::bound {

/// `largest`: sequences of the largest microbatch of the space. Infinite where no plan fits the memory. The proof's stages (replicas,
/// expenses) are there only if the request asks for them.
BoundProof floor_of(const pool::DevicePool&, pool::LayerCostTable&, int largest);

}  // namespace flotilla::search::bound
