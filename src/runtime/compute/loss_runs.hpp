#pragma once
#include "flotilla/compute/backend.hpp"

namespace flotilla::compute {

/// Sequences [first, last) of a microbatch in a row, and the scalars that their losses and tokens are added to.
struct LossRun {
  std::size_t loss = program::scalar::loss, counted = program::scalar::counted;
  int first = 0, last = 0;
};

/// Calls `add` with runs of sequences, as few as the task's sources allow: one, where losses are summed all together.
template <class Add>
void for_loss_runs(const Task& task, const Add& add) {
  if (task.sources.empty()) return add(LossRun{program::scalar::loss, program::scalar::counted, 0, task.sequences});
  for (int first = 0, last = 0; first < task.sequences; first = last) {
    const int source = task.sources[static_cast<std::size_t>(first)];
    while (last < task.sequences && task.sources[static_cast<std::size_t>(last)] == source) ++last;
    add(LossRun{program::scalar::source_loss(source), program::scalar::source_counted(source), first, last});
  }
}

}  // namespace flotilla::compute
