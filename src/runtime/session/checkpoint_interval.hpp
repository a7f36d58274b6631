#pragma once
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/journal/history.hpp"
#include "flotilla/journal/metrics.hpp"

namespace flotilla::session {

/// Until a save has been measured: soon enough to know, and seldom enough to cost little.
inline constexpr Seconds first_interval{60};

/// What a save takes.
struct SaveCost {
  Seconds pause;     ///< training stands still
  Seconds beside{};  ///< it is written beside the steps
};
SaveCost cost_of(const journal::CheckpointRecord&);

/// Share of the time in which a save may be written beside the steps: writing takes from the steps and from other users of the storage
/// what nobody measures. Chosen, not tuned.
inline constexpr double writing_share = 0.1;

/// The time between the end of a pause and the begin of the next save that loses least of a job, `mtbf` being the mean time between
/// failures of the whole job (Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps", eq. 37; its first
/// term is Young's of 1974). Longer where saves would be written for more than `writing_share` of the time.
Seconds best_checkpoint_interval(const SaveCost&, Seconds mtbf);

/// How often nodes fail: what the site says of one, taken for one failure seen in that time, and what this run has seen since. That is the
/// mean of the failure rate under a gamma prior of shape 1.
class NodeFailures {
 public:
  /// `node_mtbf`: mean time between failures of one node, above 0. `before`: incarnations that have ended; one that runs does not count.
  NodeFailures(Seconds node_mtbf, const std::vector<journal::IncarnationHistory>& before);

  int seen() const { return seen_; }
  /// Of a job of `nodes` that has run for `running` without a failure.
  Seconds job_mtbf(int nodes, Seconds running) const;

 private:
  Seconds node_time_;  ///< the prior's, and of all nodes before
  int seen_ = 0;
};

}  // namespace flotilla::session
