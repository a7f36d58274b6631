#include "flotilla/plan/batch_partition.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "flotilla/base/error.hpp"

namespace flotilla::plan {
namespace {

/// A replica's place in the round: `taken` of its `share` sequences are dealt.
struct Hand {
  std::int64_t taken = 0, share = 0;
  std::size_t replica = 0;

  /// Comes later in the round: has done more of its share.
  bool operator>(const Hand& o) const {
    const std::int64_t mine = taken * o.share, theirs = o.taken * share;
    return mine != theirs ? mine > theirs : replica > o.replica;
  }
};

const Stage& stage_at(const Plan& plan, int stage) {
  FLOTILLA_ASSERT(stage >= 0 && stage < static_cast<int>(plan.stages.size()), stage);
  return plan.stages[static_cast<std::size_t>(stage)];
}

/// Of `sequences`, in proportion to the plan's shares.
std::vector<std::int64_t> shares_of(const Plan& plan, const Stage& stage, int sequences) {
  std::vector<std::int64_t> shares;
  std::int64_t before = 0;
  for (const Replica& replica : stage.replicas) {
    const std::int64_t after = before + replica.sequences;
    shares.push_back(after * sequences / plan.global_batch - before * sequences / plan.global_batch);
    before = after;
  }
  return shares;
}

}  // namespace

BatchPartition partition_batch(const Plan& plan, int stage) { return partition_batch(plan, stage, plan.global_batch); }

BatchPartition partition_batch(const Plan& plan, int stage, int sequences) {
  const Stage& here = stage_at(plan, stage);
  const auto shares = shares_of(plan, here, sequences);
  BatchPartition dealt(here.replicas.size());
  std::vector<Hand> hands;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    if (shares[r] > 0) hands.push_back({0, shares[r], r});
    dealt[r].reserve(static_cast<std::size_t>((shares[r] + here.replicas[r].quanta * plan.quantum - 1) /
                                              std::max(1, here.replicas[r].quanta * plan.quantum)));
  }
  std::ranges::make_heap(hands, std::greater<>{});
  for (int first = 0; !hands.empty();) {
    std::ranges::pop_heap(hands, std::greater<>{});
    Hand& hand = hands.back();
    const std::int64_t size = std::int64_t{here.replicas[hand.replica].quanta} * plan.quantum;
    const int count = static_cast<int>(std::min(size, hand.share - hand.taken));
    dealt[hand.replica].push_back({first, count});
    first += count;
    hand.taken += count;
    if (hand.taken < hand.share)
      std::ranges::push_heap(hands, std::greater<>{});
    else
      hands.pop_back();
  }
  return dealt;
}

int largest_microbatch(const Plan& plan, const Replica& replica) { return std::min(replica.sequences, replica.quanta * plan.quantum); }

bool partitioned_alike(const Plan& plan, int stage, int other) {
  return std::ranges::equal(stage_at(plan, stage).replicas, stage_at(plan, other).replicas,
                            [](const Replica& a, const Replica& b) { return a.sequences == b.sequences && a.quanta == b.quanta; });
}

}  // namespace flotilla::plan
