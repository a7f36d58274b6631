#pragma once
#include <functional>
#include <vector>

#include "flotilla/base/clock.hpp"

namespace flotilla {

/// A time that parts take one after the other. What a part leaves, those after it share; what it takes too much, they lack.
class TimeShares {
 public:
  using Clock = std::function<Seconds()>;

  /// Weights of the parts in their order, above 0; a clock other than now() is a test's.
  TimeShares(Seconds end, std::vector<double> weights, Clock clock = now);
  /// The next part's: of what is left until the end, what its weight is of the weights of all parts still to come. 0 past the end.
  Seconds next();
  /// Until the end; 0 past it.
  Seconds left() const;

 private:
  Seconds end_;
  std::vector<double> weights_;
  Clock clock_;
  std::size_t part_ = 0;
};

}  // namespace flotilla
