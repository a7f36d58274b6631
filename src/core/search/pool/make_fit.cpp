// Where nothing that was looked for by its time fits: candidates are changed so that they need less memory, whatever that costs in time.
#include <algorithm>

#include "moves.hpp"
#include "refine.hpp"
#include "reshape.hpp"

namespace flotilla::search::pool {
namespace {

bool needs_less(const Estimate& a, const Estimate& than) { return a.seconds > 0 && a.full < than.full && a.excess < than.excess; }

}  // namespace

/// The first change after which the fullest device is less full; nothing where there is none.
std::optional<RankedCandidate> Refine::with_less_memory(const RankedCandidate& here) {
  std::optional<RankedCandidate> found;
  const auto consider = [&](CandidatePlan&& other) {
    if (found || stop() || estimate_.count() >= estimates_end_) return true;
    const Estimate estimate = estimate_(other);
    if (other.pipelines.empty() || !needs_less(estimate, here.estimate) || !is_as_asked(other, device_pool_)) return false;
    found = RankedCandidate{std::move(other), estimate};
    return true;
  };
  for_each_trade(here.candidate, device_pool_, consider);
  for_each_execution(here.candidate, device_pool_, estimate_.may_shard(), consider);
  for_each_reshaping(here.candidate, device_pool_, consider);
  for_each_move(here.candidate, device_pool_, estimate_.balances(), consider);
  return found;
}

/// From what misses least by its estimate, on each choice of devices. What fits by its estimate is forecast, and where it does not fit by
/// that it goes on from there.
void Refine::make_fit(const Shortlist& list) {
  if (device_pool_.devices > tuning::huge_pool) return;
  estimates_end_ = estimate_.count() + tuning::most_estimates_to_fit(device_pool_.devices);
  const auto forecasts_end = evaluator_.forecasts() + tuning::most_forecasts_to_fit;
  for (RankedCandidate here : list.nearest_misses()) {
    if (attempt(here)) return;
    while (auto next = with_less_memory(here)) {
      here = std::move(*next);
      if (here.estimate.fits && attempt(here)) return;
      if (stop() || evaluator_.forecasts() >= forecasts_end) return;
    }
    if (!here.estimate.fits && attempt(here)) return;
  }
}

}  // namespace flotilla::search::pool
