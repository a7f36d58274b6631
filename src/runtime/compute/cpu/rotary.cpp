#include "rotary.hpp"

#include <cmath>

namespace flotilla::compute::cpu {
namespace {

/// Radians from one position to the next of pair `i`, stretched as Hugging Face's rope_types llama3 and linear do it.
double step_of(const model::Config& c, int i, bool of_windows) {
  const model::Rotary& r = c.rotary;
  const double step = std::pow(of_windows ? r.window_theta : r.theta, -2.0 * i / c.rotated_columns());
  if (of_windows || r.factor == 1) return step;
  if (r.linear) return step / r.factor;
  const double turns = r.original_positions * step / (2 * M_PI);
  if (turns < r.low_frequency) return step / r.factor;
  if (turns > r.high_frequency) return step;
  const double kept = (turns - r.low_frequency) / (r.high_frequency - r.low_frequency);
  return (1 - kept) * step / r.factor + kept * step;
}

}  // namespace

std::vector<float> rotary_angles(const model::Config& c, int length, bool of_windows) {
  if (!c.rotates() || (of_windows && c.rotary.window_theta == 0)) return {};
  const int size = c.rotated_columns(), half = size / 2;
  std::vector<float> angles(static_cast<std::size_t>(length) * static_cast<std::size_t>(size));
  for (int i = 0; i < half; ++i) {
    const double step = step_of(c, i, of_windows);
    for (int position = 0; position < length; ++position) {
      float* row = angles.data() + static_cast<std::ptrdiff_t>(position) * size;
      row[i] = static_cast<float>(std::cos(position * step));
      row[half + i] = static_cast<float>(std::sin(position * step));
    }
  }
  return angles;
}

}  // namespace flotilla::compute::cpu
