#pragma once
#include <vector>

#include "flotilla/plan/plan.hpp"

namespace flotilla::plan {

/// Consecutive sequences of a step that a replica takes at once.
struct Microbatch {
  int first = 0, count = 0;
  bool operator==(const Microbatch&) const = default;
  int last() const { return first + count; }
};
/// By replica its microbatches, in the order in which it takes them; their sequences ascend.
using BatchPartition = std::vector<std::vector<Microbatch>>;

/// How the global batch is dealt to a stage's replicas. Sequences are numbered in the order in which they pass through the pipeline: a
/// microbatch goes to the replica that has done the smallest part of its share (the first of equals), so that all begin together and end
/// together, and what one stage hands on reaches every replica of the next in turn. A pure function of the stage's shares and microbatch
/// sizes: stages with equal ones are dealt alike.
BatchPartition partition_batch(const Plan&, int stage);
/// The same for a pass over `sequences` sequences: shares are in proportion to the plan's, microbatches of the plan's size.
BatchPartition partition_batch(const Plan&, int stage, int sequences);

/// Sequences of a replica's largest microbatch in a training step: the plan's size, or all of its sequences where they are fewer.
int largest_microbatch(const Plan&, const Replica&);

/// Whether two stages deal alike: replica i of both takes the same microbatches.
bool partitioned_alike(const Plan&, int stage, int other);

}  // namespace flotilla::plan
