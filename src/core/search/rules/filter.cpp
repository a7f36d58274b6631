// What of a box's stages can be part of a plan below the target, by sums that do not look at units.
#include <algorithm>

#include "rest.hpp"

namespace flotilla::search::rules {
namespace {

constexpr double rounding = 1 - 1e-12;

}  // namespace

std::vector<double> Rest::costs(What what) const {
  std::vector<double> all;
  all.reserve(moves_.size());
  for (const Move& move : moves_) all.push_back(cost(what, move));
  return all;
}

/// Drops the moves of which no plan below the target can consist; false when that leaves none, and then the bound is known.
bool Rest::filter(double target) {
  Sweep sweep{nodes_, sides_, box_.deep};
  const double update = family_.measures().least_update();
  least_time_ = std::max(sweep.forward(moves_, costs(time_)) * rounding + update, box_.above_time);
  if (least_time_ == never) return false;
  double product = 0;
  if (value_.needs_prices()) {
    least_price_ = std::max(sweep.forward(moves_, costs(price_)) * rounding, box_.above_price);
    if (least_price_ > box_.price) return false;
    product = value_of_blend(sweep.forward(moves_, costs(blend_)));
  }
  bound_ = value_.least(least_time_, least_price_, product);
  if (bound_ >= target) return false;
  if (value_.by_price()) filter_by_price(target);
  filter_by_time(target);
  bound_ = never;
  return true;
}

void Rest::filter_by_price(double target) {
  Sweep sweep{nodes_, sides_, box_.deep};
  const auto all = costs(blend_);
  sweep.forward(moves_, all);
  sweep.backward(moves_, all);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < moves_.size(); ++i)
    if (value_.least(least_time_, least_price_, value_of_blend(sweep.through(moves_[i], all[i]))) < target) moves_[kept++] = moves_[i];
  moves_.resize(kept);
}

void Rest::filter_by_time(double target) {
  const double most = value_.most_time(target, least_price_) - family_.measures().least_update();
  if (most == never) return;
  Sweep sweep{nodes_, sides_, box_.deep};
  const auto all = costs(time_);
  sweep.forward(moves_, all);
  sweep.backward(moves_, all);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < moves_.size(); ++i)
    if (sweep.through(moves_[i], all[i]) * rounding <= most) moves_[kept++] = moves_[i];
  moves_.resize(kept);
}

}  // namespace flotilla::search::rules
