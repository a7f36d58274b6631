#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::monitor {

/// What runs, and where. Outlives what watches it.
struct ActiveRun {
  const comm::World& active;
  const train::Trainer& trainer;
  const cluster::Profile& profile;        ///< of the job's devices
  const std::vector<Rank>& active_ranks;  ///< of the job, by rank of the active ranks
  Seconds deadline;                       ///< of each agreement
};

}  // namespace flotilla::monitor
