#pragma once
#include <optional>

#include "estimate.hpp"

namespace flotilla::search::pool {

/// Layers of the stages and what they recompute.
struct Cut {
  std::vector<int> layers;  ///< stages + 1 boundaries
  std::vector<plan::Recompute> recompute;
  auto operator<=>(const Cut&) const = default;
};

/// Layers for the stages of one column so that the slowest stage is as fast as it can be and every stage fits its memory; nothing where no
/// cut fits. A stage
/// recomputes at most `most`, and only where that lets it take more. `microbatches`: of the column, which bounds what it keeps in flight.
/// `sequence_parallel`: as in CandidatePlan, where the request leaves it open.
std::optional<Cut> balance(Estimator&, Network&, const PipelineReplica&, plan::Recompute most, int microbatches,
                           bool sequence_parallel = false);

/// As many blocks everywhere, the first stages one more; with more stages than blocks the head stands alone, then the embedding.
/// At most blocks + 2 stages.
std::vector<int> even_cuts(int blocks, int stages);

}  // namespace flotilla::search::pool
