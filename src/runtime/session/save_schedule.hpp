#pragma once
#include <cstdint>

#include "flotilla/base/units.hpp"

namespace flotilla::session {

/// When checkpoints are due by themselves. A stop and the last step save in any case.
struct SaveSchedule {
  std::int64_t every = 0;  ///< steps; 0: off
  Seconds every_time;      ///< 0: off

  bool due_after(std::int64_t done) const { return every > 0 && done % every == 0; }
  /// Of one rank's clock: which decides for all.
  bool due_at(Seconds time, Seconds last_save) const { return every_time.value > 0 && time - last_save >= every_time; }
};

}  // namespace flotilla::session
