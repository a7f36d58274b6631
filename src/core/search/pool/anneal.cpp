// Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) over forecasts: several changes at once, of which no single one is better.
#include <algorithm>

#include "flotilla/base/philox.hpp"
#include "flotilla/schedule/schedule.hpp"
#include "moves.hpp"
#include "refine.hpp"
#include "reshape.hpp"

namespace flotilla::search::pool {

/// Random numbers that depend on how many were drawn alone.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : bits_{seed, 0} {}
  double real() { return uniform(bits_(drawn_++)[0]); }
  int below(int end) { return std::min(end - 1, static_cast<int>(real() * end)); }
  bool chance(double share) { return real() < share; }

 private:
  Philox bits_;
  std::uint64_t drawn_ = 0;
};

namespace {

/// One of the candidates that it is shown, each with the same chance.
class OneOf {
 public:
  explicit OneOf(Dice& dice) : dice_{dice} {}
  void operator()(CandidatePlan&& other) {
    if (dice_.below(++shown_) == 0) chosen_ = std::move(other);
  }
  std::optional<CandidatePlan> chosen_;

 private:
  Dice& dice_;
  int shown_ = 0;
};

/// Blocks from one stage to any other; those between keep as many.
std::optional<CandidatePlan> with_blocks_moved(CandidatePlan candidate, Dice& dice) {
  const int stages = candidate.stages();
  if (stages < 2) return std::nullopt;
  const int from = dice.below(stages), to = (from + 1 + dice.below(stages - 1)) % stages, some = 1 + dice.below(tuning::most_blocks_moved);
  for (int cut = std::min(from, to) + 1; cut <= std::max(from, to); ++cut) candidate.cuts[at(cut)] += from < to ? -some : some;
  for (int s = 0; s < stages; ++s)
    if (candidate.cuts[at(s)] >= candidate.cuts[at(s + 1)]) return std::nullopt;
  return candidate;
}

}  // namespace

/// One change of any kind.
std::optional<CandidatePlan> Refine::changed(const CandidatePlan& from, Dice& dice) {
  OneOf one{dice};
  const auto show = [&](CandidatePlan&& other) { one(std::move(other)); };
  const Constraints& fixed = device_pool_.request.constraints;
  switch (dice.below(7)) {
    case 0:
      for_each_move(from, device_pool_, estimate_.balances(), [&](CandidatePlan&& other) { return one(std::move(other)), false; });
      break;
    case 1: for_each_trade(from, device_pool_, show); break;
    case 2: for_each_execution(from, device_pool_, estimate_.may_shard(), show); break;
    case 3:
      if (device_pool_.request.restrictions.even_layers) break;
      return with_blocks_moved(from, dice);
    case 4: {  // microbatches of all columns
      if (fixed.microbatch || microbatches_.empty()) break;
      CandidatePlan other = from;
      const int size = microbatches_[at(dice.below(static_cast<int>(microbatches_.size())))];
      for (PipelineReplica& pipeline : other.pipelines) pipeline.microbatch = size;
      return other;
    }
    case 5: {  // recomputation of all stages
      if (fixed.recompute) break;
      CandidatePlan other = from;
      const auto mode = static_cast<plan::Recompute>(dice.below(3));
      for (std::size_t s = 0; s < other.recompute.size(); ++s)
        if (has_blocks(other, s)) other.recompute[s] = mode;
      return other;
    }
    default:
      if (from.pipelines.size() * from.cuts.size() <= tuning::most_reshaped) for_each_reshaping(from, device_pool_, show);
  }
  return std::move(one.chosen_);
}

/// What its change of structure leaves behind: cuts, recomputation where memory asks for it.
std::optional<RankedCandidate> Refine::completed(CandidatePlan candidate, Dice& dice) {
  if (dice.chance(0.5))
    if (auto cut_anew = recut(candidate)) candidate = std::move(*cut_anew);
  RankedCandidate out{std::move(candidate), {}};
  out.estimate = estimate_(out.candidate);
  for (const auto mode : {plan::Recompute::selective, plan::Recompute::full}) {
    if (out.estimate.fits || out.candidate.pipelines.empty() || device_pool_.request.constraints.recompute) break;
    for (std::size_t s = 0; s < out.candidate.recompute.size(); ++s)
      if (has_blocks(out.candidate, s)) out.candidate.recompute[s] = std::max(out.candidate.recompute[s], mode);
    out.estimate = estimate_(out.candidate);
  }
  if (!out.estimate.fits || out.candidate.pipelines.empty() || !device_pool_.holds(out.candidate)) return std::nullopt;
  return out;
}

/// One to some changes after each other.
std::optional<RankedCandidate> Refine::neighbour(const CandidatePlan& from, Dice& dice) {
  CandidatePlan here = from;
  for (int changes = 0; changes < tuning::most_changes_at_once; ++changes) {
    if (changes > 0) {
      if (!dice.chance(tuning::one_more_change)) break;
      estimate_(here);  // deals its batch
      if (here.pipelines.empty()) return std::nullopt;
    }
    auto next = changed(here, dice);
    if (!next) continue;
    here = std::move(*next);
  }
  if (here == from) return std::nullopt;
  return completed(std::move(here), dice);
}

/// Of several neighbours the one that is best by its corrected estimate and was not forecast yet.
std::optional<RankedCandidate> Refine::proposal(const CandidatePlan& from, Dice& dice) {
  std::optional<RankedCandidate> best;
  double least = never;
  for (int draws = 0, found = 0; draws < tuning::draws_of_a_proposal && found < tuning::neighbours_of_a_proposal && !stop(); ++draws) {
    auto one = neighbour(from, dice);
    if (!one || std::ranges::find(tried_, one->candidate) != tried_.end()) continue;
    ++found;
    if (const double value = expected(one->candidate, one->estimate.value); value < least) least = value, best = std::move(one);
  }
  return best;
}

void Refine::anneal_from(CandidatePlan here, double value, std::int64_t forecasts, Dice& dice) {
  const auto begin = evaluator_.forecasts();
  for (int idle = 0; idle < tuning::idle_proposals && !spent() && evaluator_.forecasts() < begin + forecasts;) {
    auto next = proposal(here, dice);
    const auto before = evaluator_.forecasts();
    const auto reached = next ? attempt_within_budget(*next) : std::nullopt;
    idle = evaluator_.forecasts() == before ? idle + 1 : 0;
    if (!reached) continue;
    const double heat = tuning::warmest * (1 - static_cast<double>(evaluator_.forecasts() - begin) / static_cast<double>(forecasts));
    if (*reached > value * (1 + heat * dice.real())) continue;
    here = std::move(next->candidate), value = *reached;
  }
}

/// More starts: the best of every trait by their estimates, with all blocks recomputed where they do not fit otherwise.
void Refine::forecast_traits(const Shortlist& list) {
  if (list.ranked_candidates().empty() || device_pool_.devices > tuning::pool_of_many_traits) return;
  const double most = list.ranked_candidates().front().estimate.value * tuning::worth_trait;
  for (RankedCandidate ranked : list.best_by_trait()) {
    if (ranked.estimate.value > most) continue;
    if (spent()) return;
    const auto before = evaluator_.forecasts();
    if (attempt_within_budget(ranked) || evaluator_.forecasts() == before || device_pool_.request.constraints.recompute) continue;
    for (std::size_t s = 0; s < ranked.candidate.recompute.size(); ++s)
      if (has_blocks(ranked.candidate, s)) ranked.candidate.recompute[s] = plan::Recompute::full;
    ranked.estimate = estimate_(ranked.candidate);
    if (ranked.estimate.fits && !ranked.candidate.pipelines.empty()) attempt_within_budget(ranked);
  }
}

/// From the best plan, and in turn from the best of other traits.
void Refine::anneal(const Shortlist& list) {
  if (found_.empty() || device_pool_.devices > tuning::huge_pool) return;
  microbatches_ = estimate_.sizes();
  const auto forecasts = tuning::annealing_forecasts(device_pool_.devices, evaluator_.forecasts());
  forecasts_end_ = evaluator_.forecasts() + tuning::most_forecasts_of_traits;
  passes_left_ = tuning::passes_of_annealing(device_pool_.devices);
  forecast_traits(list);
  forecasts_end_ = evaluator_.forecasts() + forecasts;
  Dice dice{tuning::annealing_seed};
  for (int round = 0; round < tuning::annealing_rounds && !spent(); ++round) {
    const auto from = starts(true);
    if (from.empty()) return;
    const Climb& start = round % 2 == 0 ? from.front() : from[at(dice.below(static_cast<int>(from.size())))];
    anneal_from(start.here, start.value, std::max<std::int64_t>(1, forecasts / tuning::annealing_rounds), dice);
  }
}

}  // namespace flotilla::search::pool
