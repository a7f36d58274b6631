#pragma once
#include <optional>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::probe {

/// The GPU of a rank.
struct GpuChoice {
  std::optional<int> ordinal;  ///< among those that the rank sees (CUDA_VISIBLE_DEVICES); nothing: none is left for it
  int sharers = 0;             ///< ranks of the host that have the same
  int sharer = 0;              ///< which of them this one is, by rank
  bool any = false;            ///< a rank of the world sees a GPU
};

/// Ranks of a host share out its GPUs (gpu::assign_devices), near ones first. `takes_part`: false for a rank that wants none. Collective
/// over the world; ends in agreement.
GpuChoice choose_gpu(const comm::World&, bool takes_part, Seconds deadline);

}  // namespace flotilla::probe
