#include "shortlist.hpp"

#include <algorithm>
#include <set>

namespace flotilla::search::pool {
namespace {

constexpr std::size_t most_of_a_shape = 4, most_of_slots = 2;
constexpr std::size_t most_doubtful = 8, most_tight = 6;
constexpr double surely = 0.93;       // of a limit: estimates are closer than this, nearly always
constexpr double nearly_full = 1.15;  // of the memory
constexpr double hopeless = 1.15;     // of the best estimate
constexpr double hopeless_of_few = 1.25;
constexpr double seconds_in_an_hour = 3600;

}  // namespace

namespace {

bool recomputes(const Sketch& sketch) {
  return std::ranges::any_of(sketch.recompute, [](plan::Recompute r) { return r != plan::Recompute::none; });
}

}  // namespace

bool same_shape(const Sketch& a, const Sketch& b, const Stock& stock) {
  if (a.stages() != b.stages() || a.schedule != b.schedule || a.chunks != b.chunks || recomputes(a) != recomputes(b)) return false;
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

double Shortlist::over_limits(const Sketch& sketch, const Estimate& estimate) const {
  const Limits& limits = stock_.request.objective.limits;
  double most = 0;
  if (limits.devices) most = std::max(most, devices_of(sketch) / static_cast<double>(*limits.devices));
  if (limits.iterations_per_second) most = std::max(most, estimate.seconds * *limits.iterations_per_second);
  if (limits.usd_per_hour) most = std::max(most, usd_of(sketch, stock_) * seconds_in_an_hour / *limits.usd_per_hour);
  if (limits.usd_per_iteration) most = std::max(most, estimate.usd / *limits.usd_per_iteration);
  return most;
}

void Shortlist::doubt(const Sketch& sketch, const Estimate& estimate, double excess) {
  const auto place = std::upper_bound(excesses_.begin(), excesses_.end(), excess);
  const auto index = place - excesses_.begin();
  if (static_cast<std::size_t>(index) >= most_doubtful || !stock_.holds(sketch)) return;
  excesses_.insert(place, excess);
  doubtful_.insert(doubtful_.begin() + index, {sketch, estimate});
  if (doubtful_.size() > most_doubtful) doubtful_.pop_back(), excesses_.pop_back();
}

void Shortlist::keep_tight(const Sketch& sketch, const Estimate& estimate) {
  if (estimate.full > nearly_full || estimate.value >= threshold() || over_limits(sketch, estimate) > 1) return;
  const auto better = [](double value, const Candidate& c) { return value < c.estimate.value; };
  const auto place = std::upper_bound(tight_.begin(), tight_.end(), estimate.value, better);
  if ((place == tight_.end() && tight_.size() >= most_tight) || !stock_.holds(sketch)) return;
  if (std::ranges::find(tight_, sketch, &Candidate::sketch) != tight_.end()) return;
  tight_.insert(place, {sketch, estimate});
  if (tight_.size() > most_tight) tight_.pop_back();
}

double Shortlist::threshold() const {
  if (candidates_.empty()) return 1e300;
  // What may yet turn out not to fit, or to break a limit, makes nothing else hopeless.
  const auto sure = std::ranges::find_if(
      candidates_, [&](const Candidate& c) { return c.estimate.full <= surely && over_limits(c.sketch, c.estimate) <= surely; });
  const double share = stock_.devices <= small_pool ? hopeless_of_few : hopeless;
  const double far = sure == candidates_.end() ? 1e300 : sure->estimate.value * share;
  return candidates_.size() < most_ ? far : std::min(far, candidates_.back().estimate.value);
}

void Shortlist::offer(const Sketch& sketch, const Estimate& estimate) {
  if (sketch.columns.empty() || estimate.seconds <= 0) return;
  if (!estimate.fits) {
    const bool nearest = !nearest_ || estimate.excess < nearest_->estimate.excess;
    if (nearest && stock_.holds(sketch)) nearest_ = Candidate{sketch, estimate};
    return keep_tight(sketch, estimate);
  }
  if (const double over = over_limits(sketch, estimate); over > 1) return doubt(sketch, estimate, over);
  if (estimate.value >= threshold() || !stock_.holds(sketch)) return;
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
