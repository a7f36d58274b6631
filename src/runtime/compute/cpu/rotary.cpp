#include "rotary.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::compute::cpu {
namespace {

/// The pair of columns that turns so many times over the original positions, between two.
double pair_that_turns(const model::Rotary& r, int columns, double times) {
  return columns * std::log(r.original_positions / (times * 2 * M_PI)) / (2 * std::log(r.theta));
}

/// What YaRN leaves of the angle of pair `i` as it is; the rest is divided.
double kept_by_yarn(const model::Rotary& r, int columns, int i) {
  const double first = std::max(std::floor(pair_that_turns(r, columns, r.high_frequency)), 0.0);
  double last = std::min(std::ceil(pair_that_turns(r, columns, r.low_frequency)), columns - 1.0);
  if (first == last) last += 0.001;
  return 1 - std::clamp((i - first) / (last - first), 0.0, 1.0);
}

/// What queries and keys are multiplied with as they are turned.
double length_of(const model::Rotary& r, bool of_windows) {
  if (of_windows || !r.yarn) return 1;
  return r.attention_factor > 0 ? r.attention_factor : 0.1 * std::log(r.factor) + 1;
}

/// Radians from one position to the next of pair `i`, stretched as Hugging Face's rope_types yarn, llama3 and linear do it.
double step_of(const model::Config& c, int i, bool of_windows) {
  const model::Rotary& r = c.rotary;
  const double step = std::pow(of_windows ? r.window_theta : r.theta, -2.0 * i / c.rotated_columns());
  if (of_windows || r.factor == 1) return step;
  if (r.linear) return step / r.factor;
  if (r.yarn) {
    const double kept = kept_by_yarn(r, c.rotated_columns(), i);
    return (1 - kept) * step / r.factor + kept * step;
  }
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
  const double turned = length_of(c.rotary, of_windows);
  for (int i = 0; i < half; ++i) {
    const double step = step_of(c, i, of_windows);
    for (int position = 0; position < length; ++position) {
      float* row = angles.data() + static_cast<std::ptrdiff_t>(position) * size;
      row[i] = static_cast<float>(turned * std::cos(position * step));
      row[half + i] = static_cast<float>(turned * std::sin(position * step));
    }
  }
  return angles;
}

}  // namespace flotilla::compute::cpu
