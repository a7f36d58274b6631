#include <algorithm>
#include <cmath>
#include <numbers>

#include "flotilla/train/options.hpp"

namespace flotilla::train {

double learning_rate(const LearningRate& rate, std::int64_t step) {
  if (step < rate.warmup_steps) return rate.peak * static_cast<double>(step + 1) / static_cast<double>(rate.warmup_steps);
  const std::int64_t decay = std::max<std::int64_t>(1, rate.total_steps - rate.warmup_steps - 1);
  const double part = std::clamp(static_cast<double>(step - rate.warmup_steps) / static_cast<double>(decay), 0.0, 1.0);
  return rate.minimum + 0.5 * (rate.peak - rate.minimum) * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace flotilla::train
