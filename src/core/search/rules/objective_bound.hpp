#pragma once
#include "problem.hpp"

namespace flotilla::search::rules {

/// The objective as a function of time and price.
class ObjectiveBound {
 public:
  explicit ObjectiveBound(const FormulaProblem&);
  bool by_price() const { return by_price_; }
  bool needs_prices() const { return by_price_ || usd_per_iteration_ < never || usd_per_hour_ < never; }
  /// At least, of plans that take at least `time` and `price` per hour, and whose product is at least `product`; never when no such plan
  /// keeps the limits.
  double least(double time, double price, double product) const;
  /// That a plan of a value below `value` may take, if it costs at least `price` per hour.
  double most_time(double value, double price) const;

 private:
  bool by_price_;
  double allowed_ = never, usd_per_iteration_ = never, usd_per_hour_ = never;
};

}  // namespace flotilla::search::rules
