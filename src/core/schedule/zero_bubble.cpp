// ZB-H1 (Qi et al. 2023, section 2: https://arxiv.org/abs/2401.10241). 1F1B's order of passes, but a backward pass first makes the
// gradients of inputs and sends them on; those of weights are made `deferred` microbatches later, the last ones while the pipeline drains.
// Stage s of P has P - s microbatches between its forward and backward passes and s between the halves of its backward passes: P in all,
// which is what stage 0 has in 1F1B. Stage 0, which sends no gradient, does not split.
//
// With forward passes of F, input halves of B and weight-gradient halves of W, n microbatches take n (F + B + W) + (P - 1) (F + B - W)
// where 1F1B takes n (F + B + W) + (P - 1) (F + B + W).
#include <algorithm>

#include "flotilla/model/operations.hpp"
#include "one_f_one_b.hpp"
#include "schedules.hpp"

namespace flotilla::schedule {
namespace {

constexpr int some_tokens = 64;  // of each member: enough that alignment does not count

/// A microbatch whose weight-gradient half waits keeps all of it; one before its backward pass what is not dropped. The part that is makes
/// room.
Fraction room_beside_what_is_dropped(const plan::Plan& plan, const plan::Stage& stage) {
  Fraction least{1, 1};
  for (const plan::Replica& replica : stage.replicas) {
    const bool shares = plan.sequence_parallel && replica.tensor_parallel > 1;
    const model::LayerShape shape{1, some_tokens * replica.tensor_parallel, replica.tensor_parallel, 0, plan.precision, shares};
    const model::BlockLayout layout = model::block_layout(plan.model, shape, true);
    const Bytes later = layout.total + layout.again + model::kept_layout(plan.model, shape).total;
    if (layout.total.count * least.whole < least.part * later.count) least = {layout.total.count, later.count};
  }
  return least;
}

class ZeroBubble : public OneForwardOneBackward {
 public:
  PassOrder order(const Position& p) const override {
    PassOrder order = OneForwardOneBackward::order(p);
    return splits(p.index) ? with_weights(std::move(order), p.deferrable.of(most_deferred(p.index))) : order;
  }
  bool splits(int index) const override { return index > 0; }
  int most_deferred(int index) const override { return index; }
  /// (F + B - W) / (F + B + W) is 1/3 where all three take equally long, with as many microbatches as stages. With one the weight-gradient
  /// halves are after each other on no stage but the first: 2/3. Set above 1/3, not tuned: stage 0 does not split.
  double fill(int /*chunks*/, int microbatches, int stages) const override {
    return std::max(0.4, (2 - (microbatches - 1.0) / (stages - 1)) / 3);
  }

  /// A stage that computes its blocks again in the backward pass makes both halves of a microbatch together: deferred ones would need all
  /// that was computed again to stay, for each of them. Where blocks drop some of what they keep, what was computed again stays, and fewer
  /// are deferred: as many as leave the stage with what stage 0 holds.
  Fraction deferrable(const plan::Plan& plan, int stage) const override {
    const plan::Stage& here = plan.stages[static_cast<std::size_t>(stage)];
    switch (here.recompute) {
      case plan::Recompute::none: return {1, 1};
      case plan::Recompute::selective: return room_beside_what_is_dropped(plan, here);
      case plan::Recompute::full: return {0, 1};
    }
    return {1, 1};
  }
};

}  // namespace

const Schedule& zero_bubble() {
  static const ZeroBubble schedule;
  return schedule;
}

}  // namespace flotilla::schedule
