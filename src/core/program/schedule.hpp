#pragma once
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::program {

/// Sites in issue order within one microbatch (forward, backward) or one step (closing; the opening sites zero what accumulates).
struct Phases {
  const std::vector<int>& opening;
  const std::vector<int>& forward;
  const std::vector<int>& backward;
  const std::vector<int>& closing;
};

/// The loops of a stage: the only place that knows a schedule.
///   gpipe  all forwards, then all backwards (Huang et al. 2019)
///   1f1b   stages - 1 - stage forwards ahead, then one forward, one backward, then the backwards left (PipeDream-flush, Narayanan et
///          al. 2021): at most stages - stage microbatches in flight
std::vector<Block> loops(plan::ScheduleKind, bool training, int stages, int stage, int microbatches, const Phases&);

}  // namespace flotilla::program
