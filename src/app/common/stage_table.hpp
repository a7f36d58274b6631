#pragma once
#include <string>
#include <vector>

#include "app/common/table.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::app {

/// Replicas of a stage that differ at most in how much they handle.
struct AlikeReplicas {
  plan::Replica replica;
  int count = 0, sequences = 0;
  int least = 0, most = 0;  ///< microbatches
  int largest = 0;          ///< sequences of the largest
};
std::vector<AlikeReplicas> groups_of(const plan::Plan&, const plan::Stage&);
/// "7-8 x 2": microbatches and their sequences.
std::string microbatches_in_words(const AlikeReplicas&);

/// Stages x replicas of a plan by type and zone: a row for the replicas of a stage that stand on the same type and zone with the same
/// tensor degree and microbatch, with what they handle of the global batch.
std::string stage_table(const plan::Plan&, const Style& = {});

/// Whether a stage does: else tables need no column for it.
bool recomputes(const plan::Plan&);

/// "0-12 +embedding": layers of a stage.
std::string layers_in_words(const plan::Stage&, const model::Config&);

/// ", 2 of 8 experts a token, 46.7 billion parameters, 12.9 billion active"; nothing of a model without experts.
std::string experts_in_words(const model::Config&);

/// "1f1b", "interleaved (2 stages a device: 0 and 4, ...), sequence parallel".
std::string schedule_in_words(const plan::Plan&);

}  // namespace flotilla::app
