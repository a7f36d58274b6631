#include "shortlist.hpp"

#include <algorithm>
#include <set>

namespace flotilla::search::pool {
namespace {

constexpr std::size_t most_of_a_shape = 4, most_of_slots = 2;
constexpr double hopeless = 1.25;  // of the best estimate
constexpr double doubt = 1.1;      // estimates err: what is a little over a limit is forecast all the same
constexpr double seconds_in_an_hour = 3600;

}  // namespace

bool same_shape(const Sketch& a, const Sketch& b, const Stock& stock) {
  if (a.stages() != b.stages() || a.recompute != b.recompute) return false;
  const auto types = [&](const Sketch& sketch) {
    std::set<std::set<int>> out;
    for (const Column& column : sketch.columns) {
      std::set<int> of_column;
      for (const Slot& slot : column.slots) of_column.insert(stock.places[at(slot.place)].type);
      out.insert(std::move(of_column));
    }
    return out;
  };
  return types(a) == types(b);
}

bool Shortlist::keeps_limits(const Sketch& sketch, const Estimate& estimate) const {
  const Limits& limits = stock_.request.objective.limits;
  if (limits.devices && devices_of(sketch) > *limits.devices) return false;
  if (limits.iterations_per_second && estimate.seconds * *limits.iterations_per_second > doubt) return false;
  if (limits.usd_per_hour && usd_of(sketch, stock_) * seconds_in_an_hour > *limits.usd_per_hour) return false;
  return !limits.usd_per_iteration || estimate.usd <= *limits.usd_per_iteration * doubt;
}

double Shortlist::threshold() const {
  if (candidates_.empty()) return 1e300;
  const double far = candidates_.front().estimate.value * hopeless;
  return candidates_.size() < most_ ? far : std::min(far, candidates_.back().estimate.value);
}

void Shortlist::offer(const Sketch& sketch, const Estimate& estimate) {
  if (sketch.columns.empty() || estimate.seconds <= 0) return;
  if (!estimate.fits) {
    if (!nearest_ || estimate.excess < nearest_->estimate.excess) nearest_ = Candidate{sketch, estimate};
    return;
  }
  if (estimate.value >= threshold() || !keeps_limits(sketch, estimate)) return;
  std::size_t alike = 0, worst = 0, same_slots = 0, worst_of_slots = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!same_shape(candidates_[i].sketch, sketch, stock_)) continue;
    if (candidates_[i].sketch == sketch) return;
    ++alike, worst = i;
    if (std::ranges::equal(candidates_[i].sketch.columns, sketch.columns, {}, &Column::slots, &Column::slots))
      ++same_slots, worst_of_slots = i;
  }
  if (same_slots >= most_of_slots) worst = worst_of_slots;
  if (same_slots >= most_of_slots || alike >= most_of_a_shape) {
    if (candidates_[worst].estimate.value <= estimate.value) return;
    candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(worst));
  }
  const auto better = [](double value, const Candidate& c) { return value < c.estimate.value; };
  candidates_.insert(std::upper_bound(candidates_.begin(), candidates_.end(), estimate.value, better), {sketch, estimate});
  if (candidates_.size() > most_) candidates_.pop_back();
}

}  // namespace flotilla::search::pool
