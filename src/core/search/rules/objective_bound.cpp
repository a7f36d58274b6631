#include "objective_bound.hpp"

#include <algorithm>

namespace flotilla::search::rules {
ObjectiveBound::ObjectiveBound(const FormulaProblem& p) : by_price_{p.by_price()} {
  const Limits& l = p.request.objective.limits;
  if (l.iterations_per_second) allowed_ = 1 / *l.iterations_per_second;
  if (!p.in_usd()) return;
  usd_per_iteration_ = l.usd_per_iteration.value_or(never);
  usd_per_hour_ = l.usd_per_hour.value_or(never);
}

double ObjectiveBound::least(double time, double price, double product) const {
  if (time * rounding > allowed_ || price * rounding > usd_per_hour_) return never;
  if (!needs_prices()) return time;
  const double cost = std::max(time * price, product) / an_hour;
  if (cost * rounding > usd_per_iteration_) return never;
  return by_price_ ? cost : time;
}

double ObjectiveBound::most_time(double value, double price) const {
  double most = allowed_;
  if (usd_per_iteration_ < never && price > 0) most = std::min(most, usd_per_iteration_ * an_hour / price);
  if (!by_price_) return std::min(most, value) / rounding;
  return (price > 0 ? std::min(most, value * an_hour / price) : most) / rounding;
}

}  // namespace flotilla::search::rules
