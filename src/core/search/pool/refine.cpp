#include "refine.hpp"

#include <algorithm>
#include <cmath>

#include "../obedience.hpp"
#include "families.hpp"
#include "moves.hpp"
#include "reshape.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::ptrdiff_t most_starts = 6;                           // of local search
constexpr std::int64_t most_passes = 12'000, many_passes = 100'000;  // that local search may simulate: of large pools, of small ones
constexpr int huge_pool = 10'000;                                    // devices
constexpr std::size_t most_reshaped = 128;                           // stages x kinds of columns
constexpr int most_steps = 40;                                       // of a local search by estimates
constexpr double unknown_stratum = 0.06, unknown_stratum_of_few = 0.12;                  // of an estimate whose stratum has not been forecast yet
constexpr double known_stratum = 0.03;
constexpr double worth_improving = 1.1;    // in large pools: of the best
constexpr double worth_forecasting = 1.01;         // a move whose estimate is worse by more is not forecast
constexpr double unknown_worth_forecasting = 1.1, unknown_worth_forecasting_of_few = 1.3;  // of a stratum that has not been forecast yet

/// Forecasts of local search.
int most_improvements(int devices) {
  return devices <= small_pool ? 240 : devices <= 64 ? 60 : devices <= 1000 ? 40 : devices <= huge_pool ? 12 : 1;
}

bool smaller_first(const Forecasted& a, const Forecasted& b) {
  if (a.value != b.value) return a.value < b.value;
  if (a.trial.devices != b.trial.devices) return a.trial.devices < b.trial.devices;
  return a.trial.forecast.iteration < b.trial.forecast.iteration;
}

/// Of microbatches through stages, columns of equal work once: what a forecast takes time for.
std::int64_t passes_of(const Sketch& sketch) {
  std::int64_t all = 0;
  for (const Column& column : sketch.columns) all += (column.sequences / column.count + column.microbatch - 1) / column.microbatch;
  return all * sketch.stages();
}

double excess(const Trial& trial) {
  return trial.tightest ? static_cast<double>((trial.tightest->needed - trial.tightest->limit).count) : 0;
}

}  // namespace

bool Refine::stop() {
  if (!stopped_ && should_stop_ && should_stop_()) stopped_ = true;
  return stopped_;
}

void Refine::polish(Shortlist& list) {
  const auto begin = list.candidates();
  for (const Candidate& candidate : begin) {
    Candidate here = candidate;
    for (int step = 0; step < most_steps && !stop(); ++step) {
      const bool moved = for_each_move(here.sketch, stock_, estimate_.levels(), [&](Sketch&& other) {
        if (stop()) return true;
        const Estimate estimate = estimate_(other, here.estimate.value);
        if (!estimate.fits || other.columns.empty() || estimate.value >= here.estimate.value * (1 - 1e-6)) return false;
        list.offer(other, estimate);
        here = {std::move(other), estimate};
        return true;
      });
      if (!moved || stop()) break;
    }
  }
}

void Refine::forecast(const Shortlist& list) {
  race(list.candidates());
  for (const Candidate& candidate : list.tight()) {
    if (!found_.empty() && (stop() || candidate.estimate.value * corrections_.factor(candidate.sketch) > found_.front().value)) break;
    attempt(candidate);
  }
  for (const Candidate& candidate : list.doubtful()) {
    if (!found_.empty() && (stop() || candidate.estimate.value > found_.front().value)) continue;
    attempt(candidate);
  }
  if (found_.empty() && !broken_ && list.nearest_miss()) attempt(*list.nearest_miss());
}

/// Always the one that may be the best by its corrected estimate, less what that may err; strata that are not known yet err more.
void Refine::race(std::vector<Candidate> field) {
  const double unknown = stock_.devices <= small_pool ? unknown_stratum_of_few : unknown_stratum;
  const auto least = [&](const Candidate& candidate) {
    const int known = corrections_.forecasts(candidate.sketch);
    const double err = known == 0 ? unknown : known_stratum / std::sqrt(known);
    return candidate.estimate.value * corrections_.factor(candidate.sketch) * (1 - err);
  };
  while (!field.empty() && (found_.empty() || !stop())) {
    const auto next = std::ranges::min_element(field, {}, least);
    const bool enough = static_cast<int>(found_.size()) > stock_.request.alternatives;
    if (enough && least(*next) > found_.front().value) return;
    if (!attempt(*next) && next->sketch.schedule == plan::ScheduleKind::zero_bubble) attempt(in_1f1b(*next));
    field.erase(next);
  }
}

/// What keeps no weight gradients for later: it needs less memory, and every runtime executes it.
Candidate Refine::in_1f1b(Candidate candidate) {
  candidate.sketch.schedule = plan::ScheduleKind::one_f_one_b;
  candidate.estimate = estimate_(candidate.sketch);
  return candidate;
}

std::optional<double> Refine::attempt(const Candidate& candidate) {
  if (std::ranges::find(tried_, candidate.sketch) != tried_.end()) return std::nullopt;
  tried_.push_back(candidate.sketch);
  return attempt(candidate.sketch, plan_of(candidate.sketch, stock_), candidate.estimate.value);
}

std::optional<double> Refine::attempt(const Sketch& sketch) {
  if (std::ranges::find(tried_, sketch) != tried_.end()) return std::nullopt;
  tried_.push_back(sketch);
  return attempt(sketch, plan_of(sketch, stock_), 0);
}

std::optional<double> Refine::attempt(const plan::Plan& plan) { return attempt({}, plan, 0); }

std::optional<double> Refine::attempt(const Sketch& sketch, const plan::Plan& plan, double estimated) {
  const bool known = std::ranges::any_of(found_, [&](const Forecasted& f) { return f.trial.plan == plan; });
  if (known || !obeys(plan, stock_.request.restrictions) || !keeps(plan, stock_.request.constraints)) return std::nullopt;
  auto trial = stock_.holds(plan) ? bench_.forecast(plan) : std::nullopt;
  if (!trial) return std::nullopt;
  return take({sketch, std::move(*trial), 0, estimated});
}

void Refine::keep(const Sketch& sketch, const plan::Plan& plan) {
  keeping_ = true;
  attempt(sketch, plan, 0);
  keeping_ = false;
}

std::optional<double> Refine::take(Forecasted&& fresh) {
  if (!fresh.trial.fits()) {
    if (!nearest_ || excess(fresh.trial) < excess(nearest_->trial)) nearest_ = std::move(fresh);
    return std::nullopt;
  }
  const auto value = value_of(fresh.trial.forecast, stock_.request.objective.goal);
  if (!value) return std::nullopt;
  corrections_.learn(fresh.sketch, fresh.estimated, *value);
  if (const double broken = over_limits(fresh.trial.forecast, fresh.trial.devices, stock_.request.objective.limits); broken > 1) {
    if (!broken_ || broken < broken_->second) broken_.emplace(std::move(fresh.trial), broken);
    return std::nullopt;
  }
  fresh.value = *value;
  if (keeping_) kept_.push_back(fresh);
  const auto alike = std::ranges::find_if(found_, [&](const Forecasted& f) { return same_shape(f.sketch, fresh.sketch, stock_); });
  if (alike != found_.end()) {
    if (!smaller_first(fresh, *alike)) return value;
    found_.erase(alike);
  }
  found_.insert(std::upper_bound(found_.begin(), found_.end(), fresh, smaller_first), std::move(fresh));
  return value;
}

/// In the order of their corrected estimates: the forecast is dear.
std::vector<Candidate> Refine::promising_moves(const Sketch& from) {
  Sketch here = from;
  const double most = estimate_(here).value * corrections_.factor(here);
  std::vector<Candidate> moves;
  const double unknown = stock_.devices <= small_pool ? unknown_worth_forecasting_of_few : unknown_worth_forecasting;
  const auto expected = [&](const Sketch& sketch, double estimated) {  // of what is not known, better rather than worse
    return estimated * corrections_.factor(sketch) * (corrections_.forecasts(sketch) > 0 ? 1 : 1 / unknown);
  };
  const auto consider = [&](Sketch&& other) {
    if (stop()) return true;
    const Estimate estimate = estimate_(other, most * worth_forecasting / expected(other, 1));
    if (!estimate.fits || other.columns.empty()) return false;
    if (expected(other, estimate.value) <= most * worth_forecasting) moves.push_back({std::move(other), estimate});
    return false;
  };
  for_each_execution(from, stock_, estimate_.may_shard(), consider);
  if (stock_.devices <= huge_pool) {
    for_each_move(from, stock_, estimate_.levels(), consider);
    for_each_trade(from, stock_, consider);
    if (from.columns.size() * from.cuts.size() <= most_reshaped)
      for_each_reshaping(from, stock_, abilities_of(bench_.runtime()).unlike_degrees_in_a_stage, consider);
  }
  std::ranges::stable_sort(moves, {}, [&](const Candidate& c) { return expected(c.sketch, c.estimate.value); });
  return moves;
}

bool Refine::spent() { return bench_.forecasts() >= forecasts_end_ || passes_left_ < 0 || stop(); }

/// The next of the moves; the first that makes it better is taken.
void Refine::step(Climb& climb) {
  if (!climb.listed) climb.moves = promising_moves(climb.here), climb.next = 0, climb.listed = true;
  if (climb.next == climb.moves.size()) {
    climb.at_top = true;
    return;
  }
  const Candidate& move = climb.moves[climb.next++];
  const auto before = bench_.forecasts();
  const auto reached = attempt(move);
  if (bench_.forecasts() > before) passes_left_ -= passes_of(move.sketch);
  if (!reached || *reached >= climb.value) return;
  climb.here = Sketch{move.sketch}, climb.value = *reached, climb.listed = false;
}

void Refine::climb(Climb& climb, int forecasts) {
  for (const auto end = bench_.forecasts() + forecasts; !climb.at_top && bench_.forecasts() < end && !spent();) step(climb);
}

/// From the best plans of several shapes: what is best now may be a dead end. Successive halving (Jamieson and Talwalkar 2016).
void Refine::improve() {
  const bool small = stock_.devices <= small_pool;
  const int most = most_improvements(stock_.devices);
  forecasts_end_ = bench_.forecasts() + most, passes_left_ = small ? many_passes : most_passes;
  std::vector<Climb> climbs;
  for (const Forecasted& start : found_) {
    if (std::ssize(climbs) == most_starts || (!small && start.value > found_.front().value * worth_improving)) break;
    if (!start.sketch.columns.empty()) climbs.push_back({start.sketch, start.value});
  }
  while (!climbs.empty() && !spent()) {
    const auto left = static_cast<int>(forecasts_end_ - bench_.forecasts());
    const int each = climbs.size() == 1 ? left : std::max(1, left / 2 / static_cast<int>(climbs.size()));
    for (Climb& one : climbs) climb(one, each);
    if (std::ranges::all_of(climbs, &Climb::at_top)) return;
    std::ranges::stable_sort(climbs, {}, &Climb::value);
    climbs.resize((climbs.size() + 1) / 2);
    if (climbs.size() == 1 && climbs.front().at_top) return;
  }
}

}  // namespace flotilla::search::pool
