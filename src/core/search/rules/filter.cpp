// What of a node's stages can be part of a plan below the target, by sums that do not look at units.
#include <algorithm>

#include "dp_relaxation.hpp"

namespace flotilla::search::rules {
std::vector<double> DpRelaxation::costs(Quantity what) const {
  std::vector<double> all;
  all.reserve(moves_.size());
  for (const StageMove& move : moves_) all.push_back(cost(what, move));
  return all;
}

/// Drops the moves of which no plan below the target can consist; false when that leaves none, and then the bound is known.
bool DpRelaxation::filter(double target) {
  const double update = family_.measures().least_update();
  PathSweep sweep{nodes_, sides_, !few()};
  double product = 0;
  const auto times = costs(time_);
  least_time_ = std::max(sweep.forward(moves_, times) * rounding + update, branch_node_.above_time);
  if (least_time_ == never) return false;
  if (value_.needs_prices()) {
    PathSweep others{nodes_, sides_, !few()};
    least_price_ = std::max(others.forward(moves_, costs(price_)) * rounding, branch_node_.above_price);
    if (least_price_ > branch_node_.price) return false;
    product = value_of_blend(others.forward(moves_, costs(blend_)));
  }
  bound_ = value_.least(least_time_, least_price_, product);
  if (bound_ >= target) return false;
  sweep.backward(moves_, times);
  keep(sweep, times, value_.most_time(target, least_price_) - update);
  if (value_.by_price()) filter_by_price(target);
  bound_ = never;
  return true;
}

void DpRelaxation::filter_by_price(double target) {
  PathSweep sweep{nodes_, sides_, !few()};
  const auto blends = costs(blend_);
  sweep.forward(moves_, blends);
  sweep.backward(moves_, blends);
  keep(sweep, blends, most_blend(target));
}

/// The moves through which some way's sum is at most so much.
void DpRelaxation::keep(const PathSweep& sweep, const std::vector<double>& costs, double most) {
  if (most == never) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < moves_.size(); ++i)
    if (sweep.through(moves_[i], costs[i]) * rounding <= most) moves_[kept++] = moves_[i];
  moves_.resize(kept);
}

}  // namespace flotilla::search::rules
