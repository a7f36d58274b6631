#pragma once
#include <vector>

namespace flotilla::probe {

/// Value below which that part of the values lies, 0 ... 1; linear between neighbours. At least one value.
double quantile(std::vector<double> values, double part);

/// Middle of the sorted values; the mean of the middle two. At least one value.
double median(std::vector<double> values);

/// Interquartile range / median, quartiles by linear interpolation; 0 for one value or a median of 0.
double relative_scatter(std::vector<double> values);

/// Sum / count. At least one value.
double mean(const std::vector<double>& values);

/// Mean of the largest of `draws` values drawn from `values`: how long the slowest of that many devices takes, each with the same scatter.
double mean_of_largest(std::vector<double> values, int draws);

}  // namespace flotilla::probe
