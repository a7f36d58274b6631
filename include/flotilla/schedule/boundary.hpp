#pragma once
#include <vector>

#include "flotilla/plan/batch_partition.hpp"

namespace flotilla::schedule {

/// Sequences that a microbatch of a stage and one of the next stage have in common.
struct Crossing {
  int replica = 0, microbatch = 0;            ///< of the earlier stage
  int next_replica = 0, next_microbatch = 0;  ///< of the later one
  plan::Microbatch shared;
};

/// The boundary behind a stage.
struct Boundary {
  bool alike = true;                          ///< both sides are dealt alike: no crossings are listed
  std::vector<Crossing> crossings;            ///< in the order of the sequences
  std::vector<std::vector<int>> of, of_next;  ///< by replica of the earlier and of the later stage: indices into crossings
};
Boundary boundary_between(const plan::BatchPartition& stage, const plan::BatchPartition& next);

}  // namespace flotilla::schedule
