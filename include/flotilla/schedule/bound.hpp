#pragma once
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/schedule/schedule.hpp"

namespace flotilla::schedule {

/// Seconds of one microbatch's passes through a stage.
struct PassTimes {
  Seconds forward;
  Seconds backward;   ///< what the stage before waits for: the input half where passes are split
  Seconds recompute;  ///< before the backward pass; the gradient need not have arrived
  Seconds weights;    ///< the weight-gradient half where passes are split
};
/// The two halves of a backward pass. Where they were measured as more than the whole, the whole counts.
PassTimes split(const PassTimes& whole, Seconds input, Seconds weights);

/// One stage of a column: a replica of each stage, through which the same microbatches travel.
struct StageTimes {
  PassTimes full, last;            ///< of a full microbatch and of the iteration's last, which may be short
  Seconds there_full, there_last;  ///< its message to the next stage; 0 after the last stage
  Seconds back_full, back_last;    ///< the gradient's from there
  Seconds sums;                    ///< what follows the last backward pass layer by layer, and may begin with it
};
struct ColumnTimes {
  std::vector<StageTimes> stages;
  int microbatches = 0;
  int chunks = 1;  ///< stages of a device: stage s stands on device s mod (stages / chunks)
};

/// Weight-gradient halves that a stage makes before its last input half, at least.
int weights_before_last_input(const Schedule&, const Position&);
/// Round trips to the last stage and back that a stage makes one after the other, besides the last one: forward pass m + k waits for
/// backward pass m where k microbatches are in flight at most.
int turnarounds(const Schedule&, const Position&);

/// Chains of passes and messages that must follow one another in a column.
struct PipelineBound {
  Seconds last_backward;  ///< until all devices' last backward passes have ended
  Seconds last_sum;       ///< until all gradients, those of split passes too, are there and summed
};
/// Never above what the schedule's orders take with these times (docs/design/schedule.md derives it). O(stages^2).
PipelineBound bound(const Schedule&, const ColumnTimes&);

}  // namespace flotilla::schedule
