#include "incumbents.hpp"

#include <algorithm>

#include "flotilla/simulate/why_not.hpp"

namespace flotilla::search {

Evaluated evaluate(const Problem& problem, plan::Plan plan) {
  Evaluated out;
  out.forecast = problem.forecaster.forecast(plan);
  out.devices = plan::rank_count(plan);
  if (const auto found = simulate::tightest(out.forecast, [&](Rank rank) { return std::optional{problem.limit(rank)}; }))
    out.tightest = found->rank, out.needed = found->needed, out.limit = found->limit, out.memory = found->memory;
  out.plan = std::move(plan);
  return out;
}

bool same_shape(const plan::Plan& a, const plan::Plan& b) {
  const auto &sa = a.stages.front(), &sb = b.stages.front();
  const auto &ra = sa.replicas.front(), &rb = sb.replicas.front();
  return a.stages.size() == b.stages.size() && a.schedule == b.schedule && sa.recompute == sb.recompute &&
         sa.replicas.size() == sb.replicas.size() && ra.tensor_parallel == rb.tensor_parallel &&
         ra.quanta * a.quantum == rb.quanta * b.quantum;
}

bool better(const Evaluated& a, const Evaluated& b) {
  return a.forecast.iteration != b.forecast.iteration ? a.forecast.iteration < b.forecast.iteration : a.devices < b.devices;
}

void Incumbents::insert(std::vector<Evaluated>& list, const Evaluated& candidate) const {
  const auto like = std::ranges::find_if(list, [&](const Evaluated& e) { return same_shape(e.plan, candidate.plan); });
  if (like != list.end()) {
    if (!better(candidate, *like)) return;
    list.erase(like);
  }
  list.insert(std::ranges::upper_bound(list, candidate, better), candidate);
  if (list.size() > kept_) list.pop_back();
}

void Incumbents::offer(Evaluated candidate) {
  insert(candidate.fits() ? fitting_ : missing_, candidate);
  if (candidate.fits()) return;
  const auto closer = [](const Evaluated& a, const Evaluated& b) {
    return a.excess() != b.excess() ? a.excess() < b.excess() : better(a, b);
  };
  if (!nearest_ || closer(candidate, *nearest_)) nearest_ = std::move(candidate);
}

}  // namespace flotilla::search
