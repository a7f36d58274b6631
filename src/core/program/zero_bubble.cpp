#include "zero_bubble.hpp"

#include <algorithm>

#include "flotilla/model/operations.hpp"

namespace flotilla::program {

namespace {

constexpr int some_tokens = 64;  // of each member: enough that alignment does not count

/// A microbatch whose weights' half waits keeps all of it; one before its backward pass what is not dropped. The part that is makes room.
Halves room_beside_what_is_dropped(const plan::Plan& plan, const plan::Stage& stage) {
  Halves least{true, 1, 1};
  for (const plan::Replica& replica : stage.replicas) {
    const bool shares = plan.sequence_parallel && replica.tensor_parallel > 1;
    const model::LayerShape shape{1, some_tokens * replica.tensor_parallel, replica.tensor_parallel, 0, plan.precision, shares};
    const model::BlockLayout layout = model::block_layout(plan.model, shape, true);
    const Bytes later = layout.total + layout.again + model::kept_layout(plan.model, shape).total;
    if (layout.total.count * least.all < least.some * later.count) least = {true, layout.total.count, later.count};
  }
  return least;
}

}  // namespace

Halves halves_of(const plan::Plan& plan, int stage) {
  if (plan.schedule != plan::ScheduleKind::zero_bubble || stage == 0) return {};
  const plan::Stage& here = plan.stages[static_cast<std::size_t>(stage)];
  switch (here.recompute) {
    case plan::Recompute::none: break;
    case plan::Recompute::selective: return room_beside_what_is_dropped(plan, here);
    case plan::Recompute::full: return {true, 0, 1};
  }
  return {true, 1, 1};
}

PassOrder with_weights(PassOrder order, int deferred) {
  int microbatches = 0;
  for (const Turns& turns : order.turns)
    if (turns.backward >= 0) microbatches += turns.repeat;
  order.deferred = std::clamp(deferred, 0, std::max(0, microbatches - 1));
  if (order.deferred == 0) return order;
  std::vector<Turns> all;
  for (const Turns& turns : order.turns) {
    // The first backward passes of a run may have nobody's weights to follow them.
    const int without = turns.backward < 0 ? turns.repeat : std::clamp(order.deferred - turns.backward, 0, turns.repeat);
    const auto later = [](int microbatch, int by) { return microbatch < 0 ? -1 : microbatch + by; };
    if (without > 0) all.push_back({without, turns.forward, turns.backward});
    if (without < turns.repeat)
      all.push_back({turns.repeat - without, later(turns.forward, without), later(turns.backward, without),
                     turns.backward + without - order.deferred});
  }
  all.push_back({order.deferred, -1, -1, microbatches - order.deferred});
  order.turns = std::move(all);
  return order;
}

}  // namespace flotilla::program
