#include "corrections.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace flotilla::search::pool {
int Corrections::stratum(const CandidatePlan& candidate) const {
  const auto type_of = [&](const Slot& slot) { return device_pool_.places[at(slot.place)].type; };
  const int first = type_of(candidate.pipelines.front().slots.front());
  const bool one_type = std::ranges::all_of(candidate.pipelines, [&](const PipelineReplica& pipeline) {
    return std::ranges::all_of(pipeline.slots, [&](const Slot& slot) { return type_of(slot) == first; });
  });
  const int depth = static_cast<int>(std::bit_width(static_cast<unsigned>(candidate.stages())));
  const int execution = (static_cast<int>(candidate.schedule) * 2 + (candidate.sequence_parallel ? 1 : 0)) * 2 +
                        (candidate.shard_optimizer.value_or(false) ? 1 : 0);
  return ((depth * 16 + std::min(candidate.chunks, 15)) * 2 + (one_type ? 1 : 0)) * 16 + execution;
}

void Corrections::learn(const CandidatePlan& candidate, double estimated, double forecast) {
  if (candidate.pipelines.empty() || estimated <= 0 || forecast <= 0) return;
  for (Mean* mean : {&strata_[stratum(candidate)], &all_}) mean->sum_of_logs += std::log(forecast / estimated), ++mean->count;
}

double Corrections::factor(const CandidatePlan& candidate) const {
  if (all_.count == 0 || candidate.pipelines.empty()) return 1;
  const double overall = all_.sum_of_logs / all_.count;
  const auto known = strata_.find(stratum(candidate));
  if (known == strata_.end()) return std::exp(overall);
  const auto& [sum, count] = known->second;
  return std::exp((sum + tuning::weight_of_all * overall) / (count + tuning::weight_of_all));
}

int Corrections::forecasts(const CandidatePlan& candidate) const {
  const auto known = candidate.pipelines.empty() ? strata_.end() : strata_.find(stratum(candidate));
  return known == strata_.end() ? 0 : known->second.count;
}

}  // namespace flotilla::search::pool
