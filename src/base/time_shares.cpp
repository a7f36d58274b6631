#include "flotilla/base/time_shares.hpp"

#include <algorithm>
#include <numeric>

#include "flotilla/base/error.hpp"

namespace flotilla {

TimeShares::TimeShares(Seconds end, std::vector<double> weights, Clock clock)
    : end_{end}, weights_{std::move(weights)}, clock_{std::move(clock)} {}

Seconds TimeShares::left() const { return std::max(Seconds{}, end_ - clock_()); }

Seconds TimeShares::next() {
  FLOTILLA_ASSERT(part_ < weights_.size(), part_);
  const double still = std::accumulate(weights_.begin() + static_cast<std::ptrdiff_t>(part_), weights_.end(), 0.0);
  return left() * (weights_[part_++] / still);
}

}  // namespace flotilla
