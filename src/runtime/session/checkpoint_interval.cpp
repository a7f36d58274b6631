#include "checkpoint_interval.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"

namespace flotilla::session {
namespace {

/// A peer was lost, or the process was killed before it could say anything.
bool failed(const journal::IncarnationHistory& incarnation) {
  return !incarnation.running && incarnation.exit_code.value_or(ExitCode::lost_peer) == ExitCode::lost_peer;
}

Seconds daly_interval(Seconds save, Seconds mtbf) {
  if (save >= 2 * mtbf) return mtbf;
  const double ratio = save.value / (2 * mtbf.value);
  return Seconds{std::sqrt(2 * save.value * mtbf.value) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save.value};
}

}  // namespace

SaveCost cost_of(const journal::CheckpointRecord& save) { return {Seconds{save.pause()}, Seconds{save.seconds - save.pause()}}; }

Seconds best_checkpoint_interval(const SaveCost& save, Seconds mtbf) {
  return std::max(daly_interval(save.pause, mtbf), (1 / writing_share) * save.beside);
}

NodeFailures::NodeFailures(Seconds node_mtbf, const std::vector<journal::IncarnationHistory>& before) : node_time_{node_mtbf} {
  FLOTILLA_ASSERT(node_mtbf.value > 0, "a mean time between failures of ", node_mtbf);
  for (const auto& incarnation : before) {
    if (incarnation.running) continue;
    node_time_ = node_time_ + Seconds{incarnation.seconds() * std::max(1, incarnation.hosts())};
    if (failed(incarnation)) ++seen_;
  }
}

Seconds NodeFailures::job_mtbf(int nodes, Seconds running) const {
  const Seconds all = node_time_ + static_cast<double>(nodes) * running;
  return Seconds{all.value / (1 + seen_) / nodes};
}

}  // namespace flotilla::session
