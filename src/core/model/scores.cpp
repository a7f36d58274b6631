#include <bit>
#include <cmath>

#include "flotilla/model/config.hpp"

namespace flotilla::model {

double head_slope(int head, int heads) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)));
  return head < power ? std::exp2(-8.0 * (head + 1) / power) : std::exp2(-4.0 * (2 * (head - power) + 1) / power);
}

double Config::score_scale() const {
  if (!scaled_scores) return 1;
  return 1 / std::sqrt(score_width > 0 ? score_width : static_cast<double>(head_size()));
}

}  // namespace flotilla::model
