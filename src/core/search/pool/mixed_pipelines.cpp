#include <algorithm>

#include "candidate_generator.hpp"

namespace flotilla::search::pool {
/// Two types, either of them first.
void CandidateGenerator::chains(plan::Recompute recompute, const SubPool& sub_pool) {
  const auto types = present(sub_pool);
  for (const int first : types)
    for (const int second : types)
      for (const int a : tuning::chain_lengths)
        for (const int b : tuning::chain_lengths) {
          if (first == second || a + b > std::min(tuning::deepest_chain, device_pool_.request.model.layers())) continue;
          for (const int t : degrees(first))
            for (const int u : degrees(second)) {
              if (stop()) return;
              Pattern pattern(at(a), Kind{first, t});
              pattern.insert(pattern.end(), at(b), Kind{second, u});
              chain(recompute, sub_pool, pattern);
            }
        }
}

/// All types in every column, each with as many stages as it has devices for: by speed, and the other way round.
void CandidateGenerator::chains_of_all(plan::Recompute recompute, const SubPool& sub_pool) {
  auto types = present(sub_pool);
  if (types.size() < 3) return;
  for (const bool reversed : {false, true}) {
    if (reversed) std::ranges::reverse(types);
    for (int pipelines = 1; pipelines <= device_pool_.request.global_batch; pipelines *= 2)
      for (const int tensor : device_pool_.degrees) {
        Pattern pattern;
        for (const int type : types) {
          const auto& fitting = degrees(type);
          if (std::ranges::find(fitting, tensor) == fitting.end()) continue;
          int there = 0;
          for (const int p : device_pool_.types[at(type)].places) there += usable(p, sub_pool[at(p)], tensor);
          pattern.insert(pattern.end(), at(std::min(there / (pipelines * tensor), tuning::deepest_chain)), Kind{type, tensor});
        }
        const auto depth = static_cast<int>(pattern.size());
        if (stop() || depth == 0) break;
        if (depth <= std::min(tuning::deepest_chain, device_pool_.request.model.layers())) chain(recompute, sub_pool, pattern);
      }
  }
}

void CandidateGenerator::chain(plan::Recompute recompute, const SubPool& sub_pool, const Pattern& pattern) {
  const int most = most_columns(pattern, sub_pool);
  if (most < 1) return;
  PipelineReplica pipeline;
  for (const int microbatch : microbatches_) {
    if (least_value(pattern, microbatch, most, recompute) >= list_.threshold()) continue;
    if (pipeline.slots.empty()) pipeline = sample(pattern, 1, sub_pool);
    if (pipeline.slots.empty()) return;
    if (least_value(pattern, microbatch, pipeline.count, recompute) >= list_.threshold()) continue;
    pipeline.microbatch = microbatch;
    const int turns = device_pool_.request.global_batch / (pipeline.count * microbatch) + 1;
    const auto cut = balance(estimate_, network_, pipeline, recompute, turns);
    if (!cut) break;  // larger microbatches need more memory
    CandidatePlan candidate{cut->layers, cut->recompute, {}};
    SubPool left = sub_pool;
    add_columns(candidate, pattern, microbatch, left);
    const Estimate alone = offer(candidate);
    if (alone.value <= list_.threshold() * tuning::worth_filling_up) fill_up(std::move(candidate), pattern, std::move(left));
  }
}

/// Columns of one type each of what the chain leaves over, as they help.
void CandidateGenerator::fill_up(CandidatePlan candidate, const Pattern& pattern, SubPool sub_pool) {
  bool added = false;
  for (const int type : present(sub_pool)) {
    const auto& fitting = degrees(type);
    Pattern same = pattern;
    for (Kind& kind : same) kind.type = type;
    std::vector<Pattern> ways{same};
    if (!device_pool_.request.restrictions.one_tensor_degree_per_stage)
      for (const int tensor : fitting) ways.emplace_back(pattern.size(), Kind{type, tensor});
    CandidatePlan best = candidate, tried;
    CandidatePlan dealt = candidate;
    Estimate least = estimate_(dealt);
    SubPool best_room = sub_pool;
    for (const Pattern& way : ways) {
      if (std::ranges::any_of(way, [&](const Kind& k) { return std::ranges::find(fitting, k.tensor) == fitting.end(); })) continue;
      for (const int microbatch : microbatches_) {
        if (device_pool_.request.restrictions.one_microbatch_size && microbatch != candidate.pipelines.front().microbatch) continue;
        tried = candidate;
        SubPool left = sub_pool;
        add_columns(tried, way, microbatch, left);
        if (tried.pipelines.size() == candidate.pipelines.size()) break;
        const CandidatePlan whole = tried;
        const Estimate estimate = estimate_(tried, least.fits ? least.value : 1e300);
        if (!estimate.fits || (least.fits && estimate.value >= least.value)) continue;
        best = whole, least = estimate, best_room = left, added = true;
      }
    }
    candidate = best, sub_pool = best_room;
  }
  if (added) offer(std::move(candidate));
}

}  // namespace flotilla::search::pool
