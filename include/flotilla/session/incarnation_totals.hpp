#pragma once
#include <cstdint>
#include <optional>

#include "flotilla/base/units.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::session {

/// What one incarnation of a run has done so far, under all its plans. Filled on the rank that writes the metrics; empty elsewhere.
struct IncarnationTotals {
  std::int64_t first_step = 0, last_step = 0;  ///< from 1, both included; 0: none is done
  Seconds in_steps;                            ///< sum of the steps' times
  std::int64_t tokens = 0;
  std::optional<double> first_loss, last_loss;  ///< of the steps in which a token counts
  std::int64_t empty_steps = 0;                 ///< the others
  std::int64_t saved_step = 0;                  ///< of the newest checkpoint; 0: none

  void add_step(std::int64_t step, const train::StepResult& result, Seconds took, std::int64_t of_tokens) {
    if (first_step == 0) first_step = step;
    last_step = step;
    if (result.empty()) {
      ++empty_steps;
    } else {
      if (!first_loss) first_loss = result.loss;
      last_loss = result.loss;
    }
    in_steps = in_steps + took;
    tokens += of_tokens;
  }
  std::int64_t steps() const { return first_step == 0 ? 0 : last_step - first_step + 1; }
};

}  // namespace flotilla::session
