#include "zero_bubble.hpp"

#include <algorithm>

namespace flotilla::program {

namespace {

/// Whether members of a tensor-parallel group hold parts of the sequence between its products: what a product's weights need of the others
/// is gathered for the pass and gone after it.
bool shares_sequences(const plan::Plan& plan, int stage) {
  return plan.sequence_parallel && std::ranges::any_of(plan.stages[static_cast<std::size_t>(stage)].replicas,
                                                       [](const plan::Replica& r) { return r.tensor_parallel > 1; });
}

}  // namespace

Halves halves_of(const plan::Plan& plan, int stage) {
  if (plan.schedule != plan::ScheduleKind::zero_bubble || stage == 0 || shares_sequences(plan, stage)) return Halves::whole;
  switch (plan.stages[static_cast<std::size_t>(stage)].recompute) {
    case plan::Recompute::none: break;
    case plan::Recompute::selective: return Halves::whole;  // what one block computed again is gone when the next has
    case plan::Recompute::full: return Halves::together;
  }
  return Halves::deferred;
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
