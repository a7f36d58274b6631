#include "samples.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"

namespace flotilla::probe {
namespace {

double quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

double median(std::vector<double> values) {
  FLOTILLA_ASSERT(!values.empty(), "no samples");
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

double relative_scatter(std::vector<double> values) {
  FLOTILLA_ASSERT(!values.empty(), "no samples");
  std::ranges::sort(values);
  const double middle = quantile(values, 0.5);
  return middle > 0 ? (quantile(values, 0.75) - quantile(values, 0.25)) / middle : 0;
}

}  // namespace flotilla::probe
