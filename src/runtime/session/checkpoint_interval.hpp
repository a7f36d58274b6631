#pragma once
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/journal/history.hpp"

namespace flotilla::session {

/// Until a save has been measured: soon enough to know, and seldom enough to cost little.
inline constexpr Seconds first_interval{60};

/// The time between the end of a checkpoint and the begin of the next that loses least of a job: `save` is what one takes from training,
/// `mtbf` the mean time between failures of the whole job (Daly 2006, "A higher order estimate of the optimum checkpoint interval for
/// restart dumps", eq. 37; its first term is Young's of 1974).
Seconds best_checkpoint_interval(Seconds save, Seconds mtbf);

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
