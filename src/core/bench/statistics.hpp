#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace flotilla::bench {

/// Of at least one value.
inline double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Median absolute deviation from `median`.
inline double deviation_of(std::vector<double> values, double median) {
  for (double& value : values) value = std::abs(value - median);
  return median_of(std::move(values));
}

}  // namespace flotilla::bench
