#include "shortlist.hpp"

#include <algorithm>

namespace flotilla::search::pool {
namespace {

constexpr std::size_t most_of_a_shape = 2;
constexpr double doubt = 1.1;  // estimates err: what is a little over a limit is forecast all the same
constexpr double seconds_in_an_hour = 3600;

}  // namespace

bool same_shape(const Sketch& a, const Sketch& b) {
  return a.stages() == b.stages() && a.recompute == b.recompute && a.columns.size() == b.columns.size() &&
         std::ranges::equal(a.columns, b.columns, {}, &Column::slots, &Column::slots);
}

bool Shortlist::keeps_limits(const Sketch& sketch, const Estimate& estimate) const {
  const Limits& limits = stock_.request.objective.limits;
  if (limits.devices && devices_of(sketch) > *limits.devices) return false;
  if (limits.iterations_per_second && estimate.seconds * *limits.iterations_per_second > doubt) return false;
  if (!limits.usd_per_hour && !limits.usd_per_iteration) return true;
  const double usd = usd_of(sketch, stock_);
  if (limits.usd_per_hour && usd * seconds_in_an_hour > *limits.usd_per_hour) return false;
  return !limits.usd_per_iteration || usd * estimate.seconds <= *limits.usd_per_iteration * doubt;
}

double Shortlist::threshold() const { return candidates_.size() < most_ ? 1e300 : candidates_.back().estimate.value; }

void Shortlist::offer(const Sketch& sketch, const Estimate& estimate) {
  if (sketch.columns.empty() || estimate.seconds <= 0) return;
  if (!estimate.fits) {
    if (!nearest_ || estimate.excess < nearest_->estimate.excess) nearest_ = Candidate{sketch, estimate};
    return;
  }
  if (estimate.value >= threshold() || !keeps_limits(sketch, estimate)) return;
  std::size_t alike = 0, worst = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!same_shape(candidates_[i].sketch, sketch)) continue;
    if (candidates_[i].sketch == sketch) return;
    ++alike, worst = i;
  }
  if (alike >= most_of_a_shape) {
    if (candidates_[worst].estimate.value <= estimate.value) return;
    candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(worst));
  }
  const auto better = [](double value, const Candidate& c) { return value < c.estimate.value; };
  candidates_.insert(std::upper_bound(candidates_.begin(), candidates_.end(), estimate.value, better), {sketch, estimate});
  if (candidates_.size() > most_) candidates_.pop_back();
}

}  // namespace flotilla::search::pool
