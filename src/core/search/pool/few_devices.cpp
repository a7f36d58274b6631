#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <ranges>

#include "candidate_generator.hpp"

// Pools of a few devices: every multiset of columns, every cut where there are few.
namespace flotilla::search::pool {
namespace {

/// Boundaries of so many layers in so many stages; nothing where that would be more than `most`.
std::vector<std::vector<int>> all_cuts(int layers, int stages, std::size_t most) {
  std::vector<std::vector<int>> out{{0}};
  for (int s = 1; s <= stages && out.size() <= most; ++s) {
    std::vector<std::vector<int>> longer;
    for (const auto& cuts : out)
      for (int next = s == stages ? layers : cuts.back() + 1; next <= layers - (stages - s); ++next) {
        longer.push_back(cuts);
        longer.back().push_back(next);
      }
    out = std::move(longer);
  }
  return out.size() <= most ? out : std::vector<std::vector<int>>{};
}

bool is_even(const std::vector<int>& cuts) {
  int least = 1 << 30, most = 0;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    const int blocks = std::min(cuts[s + 1], cuts.back() - 1) - std::max(cuts[s], 1);
    least = std::min(least, blocks), most = std::max(most, blocks);
  }
  return most - least <= 1;
}

}  // namespace

void CandidateGenerator::few_devices(std::int64_t all) {
  const auto sub_pools = small_sub_pools();
  for (const SubPool& sub_pool : sub_pools) few_devices(sub_pool, all / static_cast<std::int64_t>(sub_pools.size()));
}

/// The whole pool, or the largest parts of it that are small enough: what a smaller pool could do, a larger one can, nearly always.
std::vector<CandidateGenerator::SubPool> CandidateGenerator::small_sub_pools() const {
  const std::size_t places = device_pool_.places.size();
  std::vector<SubPool> all;
  if (device_pool_.devices > tuning::few_devices && (device_pool_.devices > tuning::small_pool || places > tuning::places_of_few))
    return all;
  const auto one_type = [&](std::size_t mask) {
    const auto type = device_pool_.places[static_cast<std::size_t>(std::countr_zero(mask))].type;
    return std::ranges::all_of(std::views::iota(std::size_t{0}, places),
                               [&](std::size_t p) { return (mask >> p & 1) == 0 || device_pool_.places[p].type == type; });
  };
  for (std::size_t mask = (std::size_t{1} << places) - 1; mask > 0; --mask) {
    if (device_pool_.request.restrictions.one_device_type && !one_type(mask)) continue;
    SubPool sub_pool(places, 0);
    for (std::size_t p = 0; p < places; ++p)
      if (mask >> p & 1) sub_pool[p] = device_pool_.places[p].count;
    const int over = std::accumulate(sub_pool.begin(), sub_pool.end(), 0) - tuning::few_devices;
    for (std::size_t p = 0; p < places; ++p)  // less of one place, where that is enough
      if (over <= 0 || sub_pool[p] > over) {
        all.push_back(sub_pool);
        if (over <= 0) break;
        all.back()[p] -= over;
      }
  }
  std::vector<SubPool> out;
  const auto inside = [](const SubPool& a, const SubPool& b) { return std::ranges::equal(a, b, std::less_equal{}); };
  for (const SubPool& sub_pool : all) {
    const auto larger = [&](const SubPool& other) { return other != sub_pool && inside(sub_pool, other); };
    if (std::ranges::none_of(all, larger) && std::ranges::find(out, sub_pool) == out.end() && out.size() < tuning::sub_pools_of_few)
      out.push_back(sub_pool);
  }
  return out;
}

void CandidateGenerator::few_devices(const SubPool& sub_pool, std::int64_t estimates) {
  allow(estimates);
  small_sub_pool_ = sub_pool;
  const int devices = std::accumulate(sub_pool.begin(), sub_pool.end(), 0);
  for (const int stages : depths_) {
    if (stages > devices) break;
    auto cuts = !device_pool_.cuts.empty() ? std::vector<std::vector<int>>{device_pool_.cuts}
                                           : all_cuts(device_pool_.request.model.layers(), stages, tuning::cuts_of_few);
    if (device_pool_.request.restrictions.even_layers) std::erase_if(cuts, [](const auto& c) { return !is_even(c); });
    std::vector<int> degrees(at(stages), 1);
    do few_devices(degrees, cuts);
    while (!stop() && next_degrees(degrees));
  }
}

bool CandidateGenerator::holds(const CandidatePlan& candidate) const {
  std::vector<int> taken(small_sub_pool_.size(), 0);
  for (const PipelineReplica& pipeline : candidate.pipelines)
    for (const Slot& slot : pipeline.slots) taken[at(slot.place)] += pipeline.count * slot.tensor;
  for (std::size_t p = 0; p < taken.size(); ++p)
    if (taken[p] > small_sub_pool_[p]) return false;
  return device_pool_.holds(candidate);
}

/// The next of all degrees by stage; false after the last.
bool CandidateGenerator::next_degrees(std::vector<int>& degrees) const {
  for (int& degree : degrees) {
    const auto wider = std::ranges::upper_bound(device_pool_.degrees, degree);
    if (wider != device_pool_.degrees.end() && *wider <= tuning::few_devices) {
      degree = *wider;
      return true;
    }
    degree = 1;
  }
  return false;
}

/// Columns of these degrees, each kind of them anywhere in the pool.
void CandidateGenerator::few_devices(const std::vector<int>& degrees, const std::vector<std::vector<int>>& cuts) {
  const bool uniform = std::ranges::adjacent_find(degrees, std::not_equal_to{}) == degrees.end();
  if (device_pool_.request.restrictions.uniform_degrees && !uniform) return;
  if (std::accumulate(degrees.begin(), degrees.end(), 0) > std::accumulate(small_sub_pool_.begin(), small_sub_pool_.end(), 0)) return;
  std::vector<PipelineReplica> kinds{{}};
  for (const int degree : degrees) {
    std::vector<PipelineReplica> longer;
    for (const PipelineReplica& kind : kinds)
      for (int p = 0; p < static_cast<int>(device_pool_.places.size()); ++p) {
        PipelineReplica pipeline = kind;
        pipeline.slots.push_back({p, degree});
        const bool one_type = device_pool_.places[at(p)].type == device_pool_.places[at(pipeline.slots.front().place)].type;
        if (device_pool_.request.restrictions.one_device_type && !one_type) continue;
        if (holds({{}, {}, {pipeline}})) longer.push_back(std::move(pipeline));
      }
    kinds = std::move(longer);
  }
  CandidatePlan candidate;
  add_kinds(candidate, kinds, 0, cuts);
}

/// All multisets of the kinds from `from` on that the pool holds.
void CandidateGenerator::add_kinds(CandidatePlan& candidate, const std::vector<PipelineReplica>& kinds, std::size_t from,
                                   const std::vector<std::vector<int>>& cuts) {
  const auto& limit = device_pool_.request.objective.limits.devices;
  for (std::size_t k = from; k < kinds.size() && !stop(); ++k) {
    const bool one_type = candidate.pipelines.empty() || !device_pool_.request.restrictions.one_device_type ||
                          device_pool_.places[at(kinds[k].slots.front().place)].type ==
                              device_pool_.places[at(candidate.pipelines.front().slots.front().place)].type;
    if (!one_type) continue;
    candidate.pipelines.push_back(kinds[k]);
    for (;; ++candidate.pipelines.back().count) {
      if (!holds(candidate) || pipelines_of(candidate) > device_pool_.request.global_batch) break;
      if (limit && devices_of(candidate) > *limit) break;
      cut(candidate, cuts);
      add_kinds(candidate, kinds, k + 1, cuts);
    }
    candidate.pipelines.pop_back();
  }
}

/// Every cut, or those that suit some column, at every microbatch.
void CandidateGenerator::cut(const CandidatePlan& pipelines, const std::vector<std::vector<int>>& cuts) {
  for (const int m : microbatches_) {
    if (m > 1 && m / 2 * pipelines_of(pipelines) >= device_pool_.request.global_batch) break;
    CandidatePlan candidate = pipelines;
    for (PipelineReplica& pipeline : candidate.pipelines) pipeline.microbatch = m;
    if (!cuts.empty()) {
      for (const auto& some : cuts) {
        candidate.cuts = some;
        least_recompute(candidate);
      }
      continue;
    }
    for (const PipelineReplica& pipeline : candidate.pipelines) {
      const int turns = device_pool_.request.global_batch / (pipelines_of(candidate) * m) + 1;
      for (const auto most : {plan::Recompute::none, plan::Recompute::full})
        if (const auto found = balance(estimate_, network_, pipeline, most, turns)) {
          candidate.cuts = found->layers, candidate.recompute = found->recompute;
          offer(candidate);
          break;
        }
    }
  }
}

/// With nothing recomputed where that fits for sure, else everything, too.
void CandidateGenerator::least_recompute(CandidatePlan candidate) {
  for (const auto recompute : {plan::Recompute::none, plan::Recompute::full}) {
    candidate.recompute.clear();  // where there are blocks to recompute
    for (std::size_t s = 0; s + 1 < candidate.cuts.size(); ++s)
      candidate.recompute.push_back(has_blocks(candidate, s) ? recompute : plan::Recompute::none);
    if (offer(candidate).full < tuning::surely_fits) return;
  }
}

}  // namespace flotilla::search::pool
