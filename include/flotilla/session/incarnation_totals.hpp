#pragma once
#include <cstdint>

#include "flotilla/base/units.hpp"

namespace flotilla::session {

/// What one incarnation of a run has done so far, under all its plans. Filled on the rank that writes the metrics; empty elsewhere.
struct IncarnationTotals {
  std::int64_t first_step = 0, last_step = 0;  ///< from 1, both included; 0: none is done
  Seconds in_steps;                            ///< sum of the steps' times
  std::int64_t tokens = 0;
  double first_loss = 0, last_loss = 0;
  std::int64_t saved_step = 0;  ///< of the newest checkpoint; 0: none

  void add_step(std::int64_t step, double loss, Seconds took, std::int64_t of_tokens) {
    if (first_step == 0) {
      first_step = step;
      first_loss = loss;
    }
    last_step = step;
    last_loss = loss;
    in_steps = in_steps + took;
    tokens += of_tokens;
  }
  std::int64_t steps() const { return first_step == 0 ? 0 : last_step - first_step + 1; }
};

}  // namespace flotilla::session
