#include "shortlist.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace flotilla::search::pool {
namespace {

constexpr double seconds_in_an_hour = 3600;

bool recomputes(const CandidatePlan& candidate) {
  return std::ranges::any_of(candidate.recompute, [](plan::Recompute r) { return r != plan::Recompute::none; });
}

bool same_slots(const CandidatePlan& a, const CandidatePlan& b) {
  return std::ranges::equal(a.pipelines, b.pipelines, {}, &PipelineReplica::slots, &PipelineReplica::slots);
}

/// Whether the pool's nodes hold it, and the request allows it: what it forbids would take the place of what it allows.
bool may_be(const CandidatePlan& candidate, const DevicePool& device_pool) {
  return device_pool.holds(candidate) && is_as_asked(candidate, device_pool);
}

}  // namespace

std::vector<int> traits_of(const CandidatePlan& candidate, const DevicePool& device_pool) {
  const auto magnitude = [](int number) { return std::bit_width(static_cast<unsigned>(number)); };
  constexpr int values_of_a_trait = 64;
  std::vector<int> traits;
  const auto add = [&](int value) { traits.push_back(static_cast<int>(traits.size()) * values_of_a_trait + value); };
  add(magnitude(candidate.stages()));
  if (device_pool.devices > tuning::pool_of_many_traits || candidate.pipelines.empty()) return traits;
  add(static_cast<int>(candidate.schedule));
  add(candidate.sequence_parallel ? 1 : 0);
  add(candidate.shard_optimizer.value_or(false) ? 1 : 0);
  add(static_cast<int>(std::ranges::max(candidate.recompute)));
  add(magnitude(pipelines_of(candidate)));
  add(magnitude(candidate.pipelines.front().microbatch));
  add(magnitude(candidate.pipelines.front().slots.front().tensor));
  return traits;
}

bool same_shape(const CandidatePlan& a, const CandidatePlan& b, const DevicePool& device_pool) {
  if (a.stages() != b.stages() || a.schedule != b.schedule || a.chunks != b.chunks || recomputes(a) != recomputes(b)) return false;
  const auto types = [&](const CandidatePlan& candidate) {
    std::set<std::set<int>> out;
    for (const PipelineReplica& pipeline : candidate.pipelines) {
      std::set<int> of_column;
      for (const Slot& slot : pipeline.slots) of_column.insert(device_pool.places[at(slot.place)].type);
      out.insert(std::move(of_column));
    }
    return out;
  };
  return types(a) == types(b);
}

double Shortlist::over_limits(const CandidatePlan& candidate, const Estimate& estimate) const {
  const Limits& limits = device_pool_.request.objective.limits;
  double most = 0;
  if (limits.devices) most = std::max(most, devices_of(candidate) / static_cast<double>(*limits.devices));
  if (limits.iterations_per_second) most = std::max(most, estimate.seconds * *limits.iterations_per_second);
  if (limits.usd_per_hour) most = std::max(most, usd_of(candidate, device_pool_) * seconds_in_an_hour / *limits.usd_per_hour);
  if (limits.usd_per_iteration) most = std::max(most, estimate.usd / *limits.usd_per_iteration);
  return most;
}

void Shortlist::doubt(const CandidatePlan& candidate, const Estimate& estimate, double excess) {
  const auto place = std::upper_bound(excesses_.begin(), excesses_.end(), excess);
  const auto index = place - excesses_.begin();
  if (static_cast<std::size_t>(index) >= tuning::most_doubtful || !may_be(candidate, device_pool_)) return;
  excesses_.insert(place, excess);
  doubtful_.insert(doubtful_.begin() + index, {candidate, estimate});
  if (doubtful_.size() > tuning::most_doubtful) doubtful_.pop_back(), excesses_.pop_back();
}

void Shortlist::keep_nearest(const CandidatePlan& candidate, const Estimate& estimate) {
  const auto twin = std::ranges::find_if(nearest_, [&](const RankedCandidate& c) { return same_slots(c.candidate, candidate); });
  if (twin != nearest_.end() && twin->estimate.excess <= estimate.excess) return;
  const auto better = [](double excess, const RankedCandidate& c) { return excess < c.estimate.excess; };
  const auto place = std::upper_bound(nearest_.begin(), nearest_.end(), estimate.excess, better);
  if ((place == nearest_.end() && nearest_.size() >= tuning::most_nearest) || !may_be(candidate, device_pool_)) return;
  const auto index = place - nearest_.begin();
  if (twin != nearest_.end()) nearest_.erase(twin);  // it misses by more, so it stands behind
  nearest_.insert(nearest_.begin() + index, {candidate, estimate});
  if (nearest_.size() > tuning::most_nearest) nearest_.pop_back();
}

void Shortlist::keep_tight(const CandidatePlan& candidate, const Estimate& estimate) {
  if (estimate.full > tuning::nearly_full || estimate.value >= threshold() || over_limits(candidate, estimate) > 1) return;
  const auto better = [](double value, const RankedCandidate& c) { return value < c.estimate.value; };
  const auto place = std::upper_bound(tight_.begin(), tight_.end(), estimate.value, better);
  if ((place == tight_.end() && tight_.size() >= tuning::most_tight) || !may_be(candidate, device_pool_)) return;
  if (std::ranges::find(tight_, candidate, &RankedCandidate::candidate) != tight_.end()) return;
  tight_.insert(place, {candidate, estimate});
  drop_worst_twin(candidate);
  if (tight_.size() > tuning::most_tight) tight_.pop_back();
}

/// Where too many of the tight ones stand on the same slots: what fits by its forecast may be another shape.
void Shortlist::drop_worst_twin(const CandidatePlan& candidate) {
  const auto twin = [&](const RankedCandidate& other) { return same_slots(other.candidate, candidate); };
  if (static_cast<std::size_t>(std::ranges::count_if(tight_, twin)) <= tuning::most_of_slots) return;
  tight_.erase(std::prev(std::find_if(tight_.rbegin(), tight_.rend(), twin).base()));
}

void BestOfTraits::offer(const CandidatePlan& candidate, const Estimate& estimate) {
  bool held = false;
  for (const int trait : traits_of(candidate, device_pool_)) {
    const auto known = best_.find(trait);
    if (known != best_.end() && known->second.estimate.value <= estimate.value) continue;
    if (!held && !may_be(candidate, device_pool_)) return;
    held = true;
    best_.insert_or_assign(trait, RankedCandidate{candidate, estimate});
  }
}

std::vector<RankedCandidate> BestOfTraits::all() const {
  std::vector<RankedCandidate> all;
  for (const auto& [trait, ranked] : best_)
    if (std::ranges::find(all, ranked.candidate, &RankedCandidate::candidate) == all.end()) all.push_back(ranked);
  std::ranges::stable_sort(all, {}, [](const RankedCandidate& ranked) { return ranked.estimate.value; });
  return all;
}

double Shortlist::threshold() const {
  if (ranked_candidates_.empty()) return 1e300;
  // What may yet turn out not to fit, or to break a limit, makes nothing else hopeless.
  const auto sure = std::ranges::find_if(ranked_candidates_, [&](const RankedCandidate& c) {
    return c.estimate.full <= tuning::surely_within && over_limits(c.candidate, c.estimate) <= tuning::surely_within;
  });
  const double share = device_pool_.devices <= tuning::small_pool ? tuning::hopeless_of_few : tuning::hopeless;
  const double far = sure == ranked_candidates_.end() ? 1e300 : sure->estimate.value * share;
  return ranked_candidates_.size() < most_ ? far : std::min(far, ranked_candidates_.back().estimate.value);
}

void Shortlist::pass_by(const CandidatePlan& candidate, const Estimate& estimate) {
  if (device_pool_.devices > tuning::pool_of_many_traits || candidate.pipelines.empty() || estimate.seconds <= 0) return;
  if (estimate.fits && over_limits(candidate, estimate) <= 1) by_trait_.offer(candidate, estimate);
}

void Shortlist::offer(const CandidatePlan& candidate, const Estimate& estimate) {
  if (candidate.pipelines.empty() || estimate.seconds <= 0) return;
  if (!estimate.fits) {
    keep_nearest(candidate, estimate);
    return keep_tight(candidate, estimate);
  }
  if (const double over = over_limits(candidate, estimate); over > 1) return doubt(candidate, estimate, over);
  by_trait_.offer(candidate, estimate);
  if (estimate.value >= threshold() || !may_be(candidate, device_pool_)) return;
  std::size_t alike = 0, worst = 0, twins = 0, worst_of_slots = 0;
  for (std::size_t i = 0; i < ranked_candidates_.size(); ++i) {
    if (!same_shape(ranked_candidates_[i].candidate, candidate, device_pool_)) continue;
    if (ranked_candidates_[i].candidate == candidate) return;
    ++alike, worst = i;
    if (same_slots(ranked_candidates_[i].candidate, candidate)) ++twins, worst_of_slots = i;
  }
  if (twins >= tuning::most_of_slots) worst = worst_of_slots;
  if (twins >= tuning::most_of_slots || alike >= tuning::most_of_a_shape) {
    if (ranked_candidates_[worst].estimate.value <= estimate.value) return;
    ranked_candidates_.erase(ranked_candidates_.begin() + static_cast<std::ptrdiff_t>(worst));
  }
  const auto better = [](double value, const RankedCandidate& c) { return value < c.estimate.value; };
  ranked_candidates_.insert(std::upper_bound(ranked_candidates_.begin(), ranked_candidates_.end(), estimate.value, better),
                            {candidate, estimate});
  if (ranked_candidates_.size() > most_) ranked_candidates_.pop_back();
}

}  // namespace flotilla::search::pool
