#pragma once
#include <vector>

namespace flotilla::probe {

/// Middle of the sorted values; the mean of the middle two. At least one value.
double median(std::vector<double> values);

/// Interquartile range / median, quartiles by linear interpolation; 0 for one value or a median of 0.
double relative_scatter(std::vector<double> values);

}  // namespace flotilla::probe
