#include <algorithm>
#include <functional>
#include <numeric>

#include "candidate_generator.hpp"

namespace flotilla::search::pool {
namespace {

struct Judged {
  Estimate estimate;
  double over_limits = 0;
};

bool better(const Judged& a, const Judged& b) {
  if (a.estimate.fits != b.estimate.fits) return a.estimate.fits;
  if (!a.estimate.fits) return a.estimate.excess < b.estimate.excess;
  if (a.over_limits > 1 || b.over_limits > 1) return a.over_limits < b.over_limits;
  return a.estimate.value < b.estimate.value;
}

}  // namespace

void CandidateGenerator::side_by_side(plan::Recompute recompute, const SubPool& sub_pool) {
  const bool one_degree = device_pool_.request.restrictions.one_tensor_degree_per_stage;
  for (const auto& team : teams(present(sub_pool))) {
    std::set<int> all;
    for (const int type : team)
      for (const int degree : degrees(type)) all.insert(degree);
    for (const int stages : depths_) {
      if (stop()) return;
      if (one_degree)
        for (const int degree : all) side_by_side(recompute, sub_pool, team, stages, {degree});
      else
        side_by_side(recompute, sub_pool, team, stages, {all.begin(), all.end()});
    }
  }
}

/// At most what so many stages of one type come to, with the best of these degrees and any microbatch.
double CandidateGenerator::least_value(const SubPool& sub_pool, int type, int stages, const std::vector<int>& tensors,
                                       plan::Recompute recompute) {
  const auto& fitting = degrees(type);
  double least = never;
  for (const int tensor : tensors) {
    const Pattern pattern(at(stages), Kind{type, tensor});
    const int pipelines = std::ranges::find(fitting, tensor) == fitting.end() ? 0 : most_columns(pattern, sub_pool);
    for (const int m : microbatches_)
      if (pipelines > 0) least = std::min(least, least_value(pattern, m, pipelines, recompute));
  }
  return least;
}

/// Those that suit a type, at a small and at a large microbatch.
void CandidateGenerator::add_cuts(std::set<Cut>& cuts, const SubPool& sub_pool, int type, bool alone, int stages,
                                  const std::vector<int>& tensors, plan::Recompute recompute) {
  const auto& fitting = degrees(type);
  for (const int tensor : tensors) {
    if (std::ranges::find(fitting, tensor) == fitting.end()) continue;
    const Pattern pattern(at(stages), Kind{type, tensor});
    if (most_columns(pattern, sub_pool) < 1) continue;
    if (stages == 1 && recompute == plan::Recompute::none) {
      cuts.insert({{0, device_pool_.request.model.layers()}, {recompute}});
      return;
    }
    bool fits = true;
    PipelineReplica pipeline = sample(pattern, 1, sub_pool);
    if (pipeline.slots.empty()) continue;
    for (auto m = microbatches_.rbegin(); m != microbatches_.rend(); ++m) {
      const bool end = m == microbatches_.rbegin() || m + 1 == microbatches_.rend();
      if ((!end && fits) || (alone && least_value(pattern, *m, pipeline.count, recompute) >= list_.threshold())) continue;
      pipeline.microbatch = *m;
      const int turns = device_pool_.request.global_batch / (pipeline.count * *m) + 1;
      const auto found = balance(estimate_, network_, pipeline, recompute, turns);
      fits = found.has_value();
      if (found) cuts.insert(*found);
    }
  }
}

/// With any of these degrees for each type: cuts that suit the fastest type or the slowest.
void CandidateGenerator::side_by_side(plan::Recompute recompute, const SubPool& sub_pool, const std::vector<int>& team, int stages,
                                      const std::vector<int>& tensors) {
  const bool alone = team.size() == 1;
  double rate = 0;  // of the team: rates add up
  for (const int type : team) rate += 1 / least_value(sub_pool, type, stages, tensors, recompute);
  if ((alone || device_pool_.by_throughput()) && 1 / rate >= list_.threshold()) return;
  std::set<Cut> cuts;
  for (const int type : {team.front(), team.back()}) add_cuts(cuts, sub_pool, type, alone, stages, tensors, recompute);
  std::vector<Option> options;
  for (const int tensor : tensors)
    for (const int m : microbatches_) options.push_back({tensor, m});
  for (const auto& cut : cuts) {
    if (!device_pool_.request.restrictions.one_microbatch_size) {
      coordinate_descent(sub_pool, team, cut, options);
      continue;
    }
    for (const int m : microbatches_) {
      auto alike = options;
      std::erase_if(alike, [&](const Option& o) { return o.microbatch != m; });
      coordinate_descent(sub_pool, team, cut, alike);
    }
  }
}

/// Of the slowest stage of a cut, at least: nothing is computed again.
double CandidateGenerator::least_pace(const Cut& cut, const LeastPassTime& pass) const {
  const int layers = device_pool_.request.model.layers();
  double slowest = 0;
  for (std::size_t s = 0; s + 1 < cut.layers.size(); ++s) {
    const int first = cut.layers[s], last = cut.layers[s + 1], blocks = std::min(last, layers - 1) - std::max(first, 1);
    slowest = std::max(slowest, (first == 0 ? pass.embedding : 0) + blocks * pass.block + (last == layers ? pass.head : 0));
  }
  return slowest;
}

/// Sequences per second that the columns of each type would take with each option if nothing but the layers took time.
std::vector<std::vector<double>> CandidateGenerator::rates_of(const SubPool& sub_pool, const std::vector<int>& team, const Cut& cut,
                                                              const std::vector<Option>& options) {
  const std::size_t stages = cut.recompute.size();
  std::vector<std::vector<double>> rates;
  for (const int type : team) {
    auto& of_type = rates.emplace_back();
    for (const Option& option : options) {
      int devices = 0;
      for (const int p : device_pool_.types[at(type)].places)
        devices += device_pool_.groups(p, option.tensor, sub_pool[at(p)]) * option.tensor;
      const LeastPassTime& s = estimate_.layer_cost_table().least_pass(type, option.tensor, option.microbatch, plan::Recompute::none);
      const double pipelines = static_cast<double>(devices) / option.tensor / static_cast<double>(stages);
      double rate = s.usable ? pipelines * option.microbatch / least_pace(cut, s) : 1 / never;
      if (s.usable && team.size() == 1 && device_pool_.by_throughput() &&
          pipelines >= 1) {  // alone they wait for the first and the last stage
        const Pattern pattern(stages, Kind{type, option.tensor});
        rate =
            std::min(rate, device_pool_.request.global_batch / least_value(pattern, option.microbatch, pipelines, plan::Recompute::none));
      }
      of_type.push_back(rate);
    }
  }
  return rates;
}

/// Whether some stage holds more than its device without a closer look: what was sounded is known better.
bool CandidateGenerator::surely_too_large(const Cut& cut, int type, const Option& option) {
  const double limit = static_cast<double>(device_pool_.types[at(type)].memory.count);
  const auto stages = static_cast<int>(cut.recompute.size());
  LayerCostTable& layer_cost_table = estimate_.layer_cost_table();
  for (int s = 0; limit > 0 && s < stages; ++s) {
    const auto recompute = cut.recompute[at(s)];
    if (layer_cost_table.knows(type, option.tensor, option.microbatch, recompute)) continue;
    if (layer_cost_table.least_bytes(cut.layers[at(s)], cut.layers[at(s + 1)], option.tensor, option.microbatch, recompute) > limit)
      return true;
  }
  return false;
}

/// Degree and microbatch of each type in turn, while it gets better.
void CandidateGenerator::coordinate_descent(const SubPool& sub_pool, const std::vector<int>& team, const Cut& cut,
                                            const std::vector<Option>& options) {
  std::vector<std::size_t> chosen(team.size(), 0), best_chosen;
  const auto stages = cut.recompute.size();
  CandidatePlan best;
  Judged best_judged;
  const auto rates = rates_of(sub_pool, team, cut, options);
  const bool by_time = device_pool_.by_throughput() && device_pool_.request.objective.limits == Limits{};
  CandidatePlan candidate, whole;  // used again and again: most attempts lead nowhere
  SubPool left;
  Pattern pattern;
  const auto attempt = [&](const std::vector<std::size_t>& choice) {
    const bool good = best_judged.estimate.fits && best_judged.over_limits <= 1;
    const double enough = std::min(good ? best_judged.estimate.value : never, by_time ? worth_offering() : never);
    double rate = 0;
    for (std::size_t i = 0; i < team.size(); ++i) rate += rates[i][choice[i]];
    if (by_time && rate * enough < device_pool_.request.global_batch) return false;
    candidate.cuts = cut.layers, candidate.recompute = cut.recompute, candidate.pipelines.clear();
    candidate.schedule = plan::ScheduleKind::one_f_one_b, candidate.shard_optimizer.reset();
    left = sub_pool;
    for (std::size_t i = 0; i < team.size(); ++i) {
      const Option& option = options[choice[i]];
      const auto& fitting = degrees(team[i]);
      if (std::ranges::find(fitting, option.tensor) == fitting.end()) return false;
      if (surely_too_large(cut, team[i], option)) return false;
      pattern.assign(stages, Kind{team[i], option.tensor});
      add_columns(candidate, pattern, option.microbatch, left);
    }
    if (candidate.pipelines.empty()) return false;
    whole = candidate;
    const Estimate estimate = estimate_(candidate, enough);
    const Judged judged{estimate, list_.over_limits(candidate, estimate)};
    if (estimate.value <= enough) list_.pass_by(candidate, estimate);
    if (!best.pipelines.empty() && !better(judged, best_judged)) return false;
    if (candidate.pipelines.empty() || !is_as_asked(candidate, device_pool_)) return false;
    best = whole, best_judged = judged, best_chosen = choice;
    return true;
  };
  std::vector<std::size_t> fastest_first(options.size());
  std::iota(fastest_first.begin(), fastest_first.end(), std::size_t{0});
  std::ranges::stable_sort(fastest_first, std::greater{}, [&](std::size_t o) {
    double rate = 0;
    for (const auto& of_type : rates) rate += of_type[o];
    return rate;
  });
  for (const std::size_t o : fastest_first) attempt(std::vector<std::size_t>(team.size(), o));
  if (best.pipelines.empty()) return;
  chosen = best_chosen;
  const auto beside = [](const Option& a, const Option& b) {  // a step apart
    const int tensors = std::max(a.tensor, b.tensor) / std::min(a.tensor, b.tensor);
    const int microbatches = std::max(a.microbatch, b.microbatch) / std::min(a.microbatch, b.microbatch);
    return tensors * microbatches == 2;
  };
  for (bool moved = team.size() > 1; moved;) {
    moved = false;
    for (std::size_t i = 0; i < team.size(); ++i)
      for (std::size_t o = 0; o < options.size(); ++o) {
        auto other = chosen;
        other[i] = o;
        if (beside(options[o], options[chosen[i]]) && attempt(other)) chosen = best_chosen, moved = true;
      }
  }
  offer(best);
}

}  // namespace flotilla::search::pool
