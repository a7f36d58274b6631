#include "refine.hpp"

#include <algorithm>
#include <cmath>

#include "../obedience.hpp"
#include "balance.hpp"
#include "flotilla/schedule/schedule.hpp"
#include "moves.hpp"
#include "reshape.hpp"

namespace flotilla::search::pool {
namespace {

bool smaller_first(const Forecasted& a, const Forecasted& b) {
  if (a.value != b.value) return a.value < b.value;
  if (a.evaluation.devices != b.evaluation.devices) return a.evaluation.devices < b.evaluation.devices;
  return a.evaluation.forecast.iteration < b.evaluation.forecast.iteration;
}

/// Of microbatches through stages, columns of equal work once: what a forecast takes time for.
std::int64_t passes_of(const CandidatePlan& candidate) {
  std::int64_t all = 0;
  for (const PipelineReplica& pipeline : candidate.pipelines)
    all += (pipeline.sequences / pipeline.count + pipeline.microbatch - 1) / pipeline.microbatch;
  return all * candidate.stages();
}

double excess(const Evaluation& evaluation) {
  return evaluation.tightest ? static_cast<double>((evaluation.tightest->needed - evaluation.tightest->limit).count) : 0;
}

}  // namespace

bool Refine::stop() {
  if (!stopped_ && should_stop_ && should_stop_()) stopped_ = true;
  return stopped_;
}

void Refine::polish(Shortlist& list) {
  auto begin = list.ranked_candidates();
  const auto traits = list.best_by_trait();
  if (device_pool_.devices <= tuning::huge_pool) begin.insert(begin.end(), traits.begin(), traits.end());
  for (const RankedCandidate& ranked : begin) descend(ranked, list);
  if (device_pool_.devices > tuning::pool_of_many_traits) return;
  const auto known = list.best_by_trait();
  for (const RankedCandidate& ranked : known)
    for_each_execution(ranked.candidate, device_pool_, estimate_.may_shard(), [&](CandidatePlan&& other) {
      const Estimate estimate = estimate_(other);
      list.offer(other, estimate);
    });
  for (const RankedCandidate& ranked : list.best_by_trait())
    if (std::ranges::find(known, ranked.candidate, &RankedCandidate::candidate) == known.end()) descend(ranked, list);
}

void Refine::descend(RankedCandidate here, Shortlist& list) {
  for (int step = 0; step < tuning::steps_of_polish && !stop(); ++step) {
    const bool moved = for_each_move(here.candidate, device_pool_, estimate_.balances(), [&](CandidatePlan&& other) {
      if (stop()) return true;
      const Estimate estimate = estimate_(other, here.estimate.value);
      if (!estimate.fits || other.pipelines.empty() || estimate.value >= here.estimate.value * (1 - 1e-6)) return false;
      if (!is_as_asked(other, device_pool_)) return false;
      list.offer(other, estimate);
      here = {std::move(other), estimate};
      return true;
    });
    if (!moved) return;
  }
}

void Refine::set_aside(const Shortlist& list) {
  if (!should_stop_ || device_pool_.devices <= tuning::huge_pool || list.ranked_candidates().empty() || set_aside_) return;
  const RankedCandidate& best = list.ranked_candidates().front();
  const auto plan = plan_of(best.candidate, device_pool_);
  if (!keeps_restrictions(plan, device_pool_.request.restrictions) || !keeps(plan, device_pool_.request.constraints)) return;
  if (auto evaluation = evaluator_.forecast(plan)) set_aside_ = Forecasted{best.candidate, std::move(*evaluation), 0, best.estimate.value};
}

void Refine::forecast(const Shortlist& list) {
  if (set_aside_ && stop()) take(std::move(*set_aside_));
  race(list.ranked_candidates());
  for (const RankedCandidate& ranked : list.best_by_trait()) {
    if (list.ranked_candidates().empty() || device_pool_.devices > tuning::huge_pool || stop()) break;
    if (ranked.estimate.value <= list.ranked_candidates().front().estimate.value * tuning::worth_a_look) attempt(ranked);
  }
  for (const RankedCandidate& ranked : list.tight()) {
    if (!found_.empty() && (stop() || ranked.estimate.value * corrections_.factor(ranked.candidate) > found_.front().value)) break;
    attempt_or_spare(ranked);
  }
  for (const RankedCandidate& ranked : list.doubtful()) {
    if (!found_.empty() && (stop() || ranked.estimate.value > found_.front().value)) continue;
    attempt(ranked);
  }
  if (found_.empty() && !broken_ && !stop()) make_fit(list);
}

/// Always the one that may be the best by its corrected estimate, less what that may err; strata that are not known yet err more.
void Refine::race(std::vector<RankedCandidate> field) {
  const double unknown = device_pool_.devices <= tuning::small_pool ? tuning::unknown_stratum_of_few : tuning::unknown_stratum;
  const auto least = [&](const RankedCandidate& ranked) {
    const int known = corrections_.forecasts(ranked.candidate);
    const double err = known == 0 ? unknown : tuning::known_stratum / std::sqrt(known);
    return ranked.estimate.value * corrections_.factor(ranked.candidate) * (1 - err);
  };
  while (!field.empty() && (found_.empty() || !stop())) {
    const auto next = std::ranges::min_element(field, {}, least);
    const bool enough = static_cast<int>(found_.size()) > device_pool_.request.alternatives;
    if (enough && least(*next) > found_.front().value) return;
    attempt_or_spare(*next);
    field.erase(next);
  }
}

/// What does not fit by its forecast may with less memory: with whole backward passes, or with norms and activations recomputed.
void Refine::attempt_or_spare(const RankedCandidate& ranked) {
  if (attempt(ranked)) return;
  const CandidatePlan& candidate = ranked.candidate;
  if (schedule::schedule_of(candidate.schedule).most_deferred(candidate.stages() - 1) > 0) attempt(with_whole_passes(ranked));
  if (const auto sparing = recomputing(ranked)) attempt(*sparing);
}

/// With selective recomputation wherever there is none; nothing where that changes nothing or may not be.
std::optional<RankedCandidate> Refine::recomputing(RankedCandidate ranked) {
  auto& modes = ranked.candidate.recompute;
  if (device_pool_.request.constraints.recompute || std::ranges::find(modes, plan::Recompute::none) == modes.end()) return std::nullopt;
  std::ranges::replace(modes, plan::Recompute::none, plan::Recompute::selective);
  ranked.estimate = estimate_(ranked.candidate);
  return ranked.estimate.fits ? std::optional{std::move(ranked)} : std::nullopt;
}

/// What keeps no weight gradients for later: it needs less memory, and every runtime executes it.
RankedCandidate Refine::with_whole_passes(RankedCandidate ranked) {
  ranked.candidate.schedule = schedule::usual_schedule();
  ranked.estimate = estimate_(ranked.candidate);
  return ranked;
}

std::optional<double> Refine::attempt(const RankedCandidate& ranked) {
  if (std::ranges::find(tried_, ranked.candidate) != tried_.end()) return std::nullopt;
  tried_.push_back(ranked.candidate);
  return attempt(ranked.candidate, plan_of(ranked.candidate, device_pool_), ranked.estimate.value);
}

std::optional<double> Refine::attempt(const CandidatePlan& candidate) {
  if (std::ranges::find(tried_, candidate) != tried_.end()) return std::nullopt;
  tried_.push_back(candidate);
  return attempt(candidate, plan_of(candidate, device_pool_), 0);
}

std::optional<double> Refine::attempt(const plan::Plan& plan) { return attempt({}, plan, 0); }

std::optional<double> Refine::attempt(const CandidatePlan& candidate, const plan::Plan& plan, double estimated) {
  const bool known = std::ranges::any_of(found_, [&](const Forecasted& f) { return f.evaluation.plan == plan; });
  if (known || !keeps_restrictions(plan, device_pool_.request.restrictions) || !keeps(plan, device_pool_.request.constraints))
    return std::nullopt;
  auto evaluation = device_pool_.holds(plan) ? forecast(plan) : std::nullopt;
  if (!evaluation) return std::nullopt;
  return take({candidate, std::move(*evaluation), 0, estimated});
}

/// What was set aside is known.
std::optional<Evaluation> Refine::forecast(const plan::Plan& plan) {
  if (!set_aside_ || set_aside_->evaluation.plan != plan) return evaluator_.forecast(plan, !found_.empty());
  Evaluation known = std::move(set_aside_->evaluation);
  set_aside_.reset();
  return known;
}

void Refine::keep(const CandidatePlan& candidate, const plan::Plan& plan) {
  keeping_ = true;
  attempt(candidate, plan, 0);
  keeping_ = false;
}

std::optional<double> Refine::take(Forecasted&& fresh) {
  if (!fresh.evaluation.fits()) {
    if (!nearest_ || excess(fresh.evaluation) < excess(nearest_->evaluation)) nearest_ = std::move(fresh);
    return std::nullopt;
  }
  const auto value = value_of(fresh.evaluation.forecast.iteration, fresh.evaluation.forecast.expense, device_pool_.request.objective.goal);
  if (!value) return std::nullopt;
  corrections_.learn(fresh.candidate, fresh.estimated, *value);
  if (const double broken = over_limits(fresh.evaluation.forecast.iteration, fresh.evaluation.forecast.expense, fresh.evaluation.devices,
                                        device_pool_.request.objective.limits);
      broken > 1) {
    if (!broken_ || broken < broken_->second) broken_.emplace(std::move(fresh.evaluation), broken);
    return std::nullopt;
  }
  fresh.value = *value;
  if (!fresh.candidate.pipelines.empty())
    for (const int trait : traits_of(fresh.candidate, device_pool_))
      if (const auto known = by_trait_.find(trait); known == by_trait_.end() || *value < known->second.second)
        by_trait_.insert_or_assign(trait, std::pair{fresh.candidate, *value});
  if (keeping_) kept_.push_back(fresh);
  const auto alike =
      std::ranges::find_if(found_, [&](const Forecasted& f) { return same_shape(f.candidate, fresh.candidate, device_pool_); });
  if (alike != found_.end()) {
    if (!smaller_first(fresh, *alike)) return value;
    found_.erase(alike);
  }
  found_.insert(std::upper_bound(found_.begin(), found_.end(), fresh, smaller_first), std::move(fresh));
  return value;
}

double Refine::expected(const CandidatePlan& candidate, double estimated) const {
  const double unknown =
      device_pool_.devices <= tuning::small_pool ? tuning::unknown_worth_forecasting_of_few : tuning::unknown_worth_forecasting;
  return estimated * corrections_.factor(candidate) * (corrections_.forecasts(candidate) > 0 ? 1 : 1 / unknown);
}

/// In the order of their corrected estimates: the forecast is dear.
std::vector<RankedCandidate> Refine::promising_moves(const CandidatePlan& from) {
  CandidatePlan here = from;
  const double most = estimate_(here).value * corrections_.factor(here);
  std::vector<RankedCandidate> moves;
  const auto consider = [&](CandidatePlan&& other) {
    if (stop()) return true;
    const Estimate estimate = estimate_(other, most * tuning::worth_forecasting / expected(other, 1));
    if (!estimate.fits || other.pipelines.empty()) return false;
    if (expected(other, estimate.value) <= most * tuning::worth_forecasting) moves.push_back({std::move(other), estimate});
    return false;
  };
  for_each_execution(from, device_pool_, estimate_.may_shard(), consider);
  if (device_pool_.devices <= tuning::huge_pool) {
    for_each_move(from, device_pool_, estimate_.balances(), consider);
    for_each_trade(from, device_pool_, consider);
    if (from.pipelines.size() * from.cuts.size() <= tuning::most_reshaped)
      for_each_reshaping(from, device_pool_, [&](CandidatePlan&& other) {
        if (device_pool_.devices <= tuning::pool_of_many_traits)
          if (auto cut_anew = recut(other)) consider(std::move(*cut_anew));
        consider(std::move(other));
      });
  }
  std::ranges::stable_sort(moves, {}, [&](const RankedCandidate& c) { return expected(c.candidate, c.estimate.value); });
  return moves;
}

/// With cuts that suit the pipeline replicas that it has most of, and recomputation where its memory asks for it: after another choice of
/// devices the old ones hide what it is worth.
std::optional<CandidatePlan> Refine::recut(const CandidatePlan& candidate) {
  if (device_pool_.request.restrictions.even_layers) return std::nullopt;
  if (candidate.stages() < 2 || stop()) return std::nullopt;
  const PipelineReplica& most = *std::ranges::max_element(candidate.pipelines, {}, &PipelineReplica::count);
  const int microbatches = device_pool_.request.global_batch / (pipelines_of(candidate) * most.microbatch) + 1;
  const auto cut = balance(estimate_, network_, most, plan::Recompute::full, microbatches, candidate.sequence_parallel);
  if (!cut || (cut->layers == candidate.cuts && cut->recompute == candidate.recompute)) return std::nullopt;
  CandidatePlan out = candidate;
  out.cuts = cut->layers, out.recompute = cut->recompute;
  return out;
}

bool Refine::spent() { return evaluator_.forecasts() >= forecasts_end_ || passes_left_ < 0 || stop(); }

/// The next of the moves; the first that makes it better is taken.
void Refine::step(Climb& climb) {
  if (!climb.listed) climb.moves = promising_moves(climb.here), climb.next = 0, climb.listed = true;
  if (climb.next == climb.moves.size()) {
    climb.at_top = true;
    return;
  }
  const RankedCandidate& move = climb.moves[climb.next++];
  const auto reached = attempt_within_budget(move);
  if (!reached || *reached >= climb.value) return;
  climb.here = CandidatePlan{move.candidate}, climb.value = *reached, climb.listed = false;
}

void Refine::climb(Climb& climb, int forecasts) {
  for (const auto end = evaluator_.forecasts() + forecasts; !climb.at_top && evaluator_.forecasts() < end && !spent();) step(climb);
}

/// The best plans of several shapes; those of all traits, too, if asked for.
std::vector<Refine::Climb> Refine::starts(bool of_traits) const {
  std::vector<Climb> climbs;
  for (const Forecasted& start : found_) {
    if (std::ssize(climbs) == tuning::most_starts || (!of_traits && start.value > found_.front().value * tuning::worth_improving)) break;
    if (!start.candidate.pipelines.empty()) climbs.push_back({start.candidate, start.value});
  }
  if (!of_traits) return climbs;
  for (const auto& [trait, best] : by_trait_)
    if (std::ranges::find(climbs, best.first, &Climb::here) == climbs.end()) climbs.push_back({best.first, best.second});
  return climbs;
}

/// From the best plans of several shapes: what is best now may be a dead end.
void Refine::improve() {
  const bool small = device_pool_.devices <= tuning::small_pool;
  forecasts_end_ = evaluator_.forecasts() + tuning::most_improvements(device_pool_.devices),
  passes_left_ = small ? tuning::passes_of_improvement_of_few : tuning::passes_of_improvement;
  climb_from(starts(small));
}

/// Successive halving (Jamieson and Talwalkar 2016).
void Refine::climb_from(std::vector<Climb> climbs) {
  while (!climbs.empty() && !spent()) {
    const auto left = static_cast<int>(forecasts_end_ - evaluator_.forecasts());
    const int each = climbs.size() == 1 ? left : std::max(1, left / 2 / static_cast<int>(climbs.size()));
    for (Climb& one : climbs) climb(one, each);
    if (std::ranges::all_of(climbs, &Climb::at_top)) return;
    std::ranges::stable_sort(climbs, {}, &Climb::value);
    climbs.resize((climbs.size() + 1) / 2);
    if (climbs.size() == 1 && climbs.front().at_top) return;
  }
}

std::optional<double> Refine::attempt_within_budget(const RankedCandidate& ranked) {
  const auto before = evaluator_.forecasts();
  const auto reached = attempt(ranked);
  if (evaluator_.forecasts() > before) passes_left_ -= passes_of(ranked.candidate);
  return reached;
}

}  // namespace flotilla::search::pool
