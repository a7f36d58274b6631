#include "flotilla/schedule/passes.hpp"

#include <algorithm>

namespace flotilla::schedule {

std::vector<Pass> passes_of(const PassOrder& order) {
  std::vector<Pass> passes;
  for (const PassLoop& loop : order.loops)
    for (int i = 0; i < loop.repeat; ++i) {
      if (loop.forward >= 0) passes.push_back({Work::forward, loop.chunk, loop.forward + i});
      if (loop.backward >= 0) passes.push_back({Work::backward, loop.chunk, loop.backward + i});
      if (loop.weights >= 0) passes.push_back({Work::weights, loop.chunk, loop.weights + i});
      // Halves that end their own backward pass stand in no loop.
      if (loop.backward >= 0 && order.deferred == 0) passes.push_back({Work::weights, loop.chunk, loop.backward + i});
    }
  return passes;
}

PassOrder forward_only(int microbatches) {
  PassOrder order;
  if (microbatches > 0) order.loops.push_back({microbatches, 0, -1});
  return order;
}

PassOrder with_weights(PassOrder order, int deferred) {
  int microbatches = 0;
  for (const PassLoop& loop : order.loops)
    if (loop.backward >= 0) microbatches += loop.repeat;
  order.deferred = std::clamp(deferred, 0, std::max(0, microbatches - 1));
  if (order.deferred == 0) return order;
  std::vector<PassLoop> all;
  for (const PassLoop& loop : order.loops) {
    // The first backward passes of a run may have nobody's weights to follow them.
    const int without = loop.backward < 0 ? loop.repeat : std::clamp(order.deferred - loop.backward, 0, loop.repeat);
    const auto later = [](int microbatch, int by) { return microbatch < 0 ? -1 : microbatch + by; };
    if (without > 0) all.push_back({without, loop.forward, loop.backward});
    if (without < loop.repeat)
      all.push_back(
          {loop.repeat - without, later(loop.forward, without), later(loop.backward, without), loop.backward + without - order.deferred});
  }
  all.push_back({order.deferred, -1, -1, microbatches - order.deferred});
  order.loops = std::move(all);
  return order;
}

}  // namespace flotilla::schedule
