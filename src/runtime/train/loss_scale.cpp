#include "flotilla/train/loss_scale.hpp"

#include <algorithm>

namespace flotilla::train {

LossScale after_update(LossScale scale) {
  if (++scale.good_steps < loss_scale_interval) return scale;
  return {std::min(2 * scale.value, largest_loss_scale), 0};
}

LossScale after_overflow(LossScale scale) { return {std::max(scale.value / 2, smallest_loss_scale), 0}; }

}  // namespace flotilla::train
