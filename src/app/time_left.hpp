#pragma once
#include <optional>

#include "flotilla/base/units.hpp"

namespace flotilla::app {

/// When to begin the last step of a job that has a time limit. Times are on the clock of flotilla::now().
struct TimeLeft {
  std::optional<Seconds> ends;
  Seconds slack;  ///< for what is not measured: Slurm's own imprecision, a file system that is slow today
  Seconds step;   ///< the longest of the recent ones
  Seconds save;   ///< the longest measured, of earlier incarnations too; 0: none yet

  /// Whether the step that begins now must be the last: another one and the save after it might not end in time.
  bool last_step(Seconds time) const { return ends && time + 2 * step + save + slack > *ends; }
};

}  // namespace flotilla::app
