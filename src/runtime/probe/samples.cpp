#include "samples.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flotilla/base/error.hpp"

namespace flotilla::probe {
namespace {

double of_sorted(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

double quantile(std::vector<double> values, double part) {
  FLOTILLA_ASSERT(!values.empty() && part >= 0 && part <= 1, values.size(), " samples, part ", part);
  std::ranges::sort(values);
  return of_sorted(values, part);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double relative_scatter(std::vector<double> values) {
  FLOTILLA_ASSERT(!values.empty(), "no samples");
  std::ranges::sort(values);
  const double middle = of_sorted(values, 0.5);
  return middle > 0 ? (of_sorted(values, 0.75) - of_sorted(values, 0.25)) / middle : 0;
}

double mean(const std::vector<double>& values) {
  FLOTILLA_ASSERT(!values.empty(), "no samples");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The k-th smallest of n is the largest of d draws with probability (k/n)^d - ((k-1)/n)^d.
double mean_of_largest(std::vector<double> values, int draws) {
  FLOTILLA_ASSERT(!values.empty() && draws >= 1, values.size(), " samples, ", draws, " draws");
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  double sum = 0, below = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const double up_to = std::pow(static_cast<double>(k + 1) / count, draws);
    sum += values[k] * (up_to - below);
    below = up_to;
  }
  return sum;
}

}  // namespace flotilla::probe
