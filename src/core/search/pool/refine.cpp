#include "refine.hpp"

#include <algorithm>
#include <iterator>

#include "../obedience.hpp"
#include "families.hpp"
#include "moves.hpp"
#include "reshape.hpp"
#include "variants.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::ptrdiff_t many_varied = 12, most_varied = 2, most_improved = 6;  // of the best plans
constexpr std::int64_t most_passes = 12'000, many_passes = 100'000;  // that local search may simulate: of large pools, of small ones
constexpr int few_improvements = 12;                                 // of plans with split backward passes, in large pools
constexpr std::int64_t few_passes = 2'000;
constexpr int huge_pool = 10'000;                   // devices
constexpr std::size_t most_reshaped = 128;          // stages x kinds of columns
constexpr int most_steps = 40;                      // of a local search
constexpr double doubt = 1.04, doubt_of_few = 1.1;  // estimates are closer than this to the forecasts, nearly always
constexpr double worth_improving = 1.1;             // in large pools: of the best
constexpr double worth_forecasting = 1.01;          // a move whose estimate is worse by more is not forecast

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
        const Estimate estimate = estimate_(other, here.estimate.value);
        if (!estimate.fits || other.columns.empty() || estimate.value >= here.estimate.value * (1 - 1e-6)) return false;
        list.offer(other, estimate);
        here = {std::move(other), estimate};
        return true;
      });
      if (!moved) break;
    }
  }
}

void Refine::forecast(const Shortlist& list) {
  const double far = stock_.devices <= small_pool ? doubt_of_few : doubt;
  for (const Candidate& candidate : list.candidates()) {
    if (!found_.empty() && stop()) return;
    const bool enough = static_cast<int>(found_.size()) > stock_.request.alternatives;
    if (enough && candidate.estimate.value > found_.front().value * far) break;
    attempt(candidate.sketch);
  }
  for (const Candidate& candidate : list.tight()) {
    if (!found_.empty() && (stop() || candidate.estimate.value > found_.front().value * far)) break;
    attempt(candidate.sketch);
  }
  for (const Candidate& candidate : list.doubtful()) {
    if (!found_.empty() && (stop() || candidate.estimate.value > found_.front().value)) continue;
    attempt(candidate.sketch);
  }
  if (found_.empty() && !broken_ && list.nearest_miss()) attempt(list.nearest_miss()->sketch);
}

std::optional<double> Refine::attempt(const Sketch& sketch) {
  if (std::ranges::find(tried_, sketch) != tried_.end()) return std::nullopt;
  tried_.push_back(sketch);
  return attempt(sketch, plan_of(sketch, stock_));
}

std::optional<double> Refine::attempt(const plan::Plan& plan) { return attempt({}, plan); }

std::optional<double> Refine::attempt(const Sketch& sketch, const plan::Plan& plan) {
  const bool known = std::ranges::any_of(found_, [&](const Forecasted& f) { return f.trial.plan == plan; });
  if (known || !obeys(plan, stock_.request.restrictions) || !keeps(plan, stock_.request.constraints)) return std::nullopt;
  auto trial = stock_.holds(plan) ? bench_.forecast(plan) : std::nullopt;
  if (!trial) return std::nullopt;
  return take({sketch, std::move(*trial), 0});
}

void Refine::keep(const Sketch& sketch, const plan::Plan& plan) {
  keeping_ = true;
  attempt(sketch, plan);
  keeping_ = false;
}

void Refine::vary() {
  const auto most = stock_.devices <= small_pool ? many_varied : stock_.devices <= huge_pool ? most_varied : 1;
  const std::vector<Forecasted> best(found_.begin(), found_.begin() + std::min(most, std::ssize(found_)));
  for (const Forecasted& one : best) {
    std::optional<bool>
        shares_tokens;  // of a huge pool, whose forecasts are dear: schedules are tried only with what is smaller_first alone
    for (const auto& plan : variants_of(one.trial.plan)) {
      if (stop()) return;
      if (shares_tokens && plan.sequence_parallel != *shares_tokens) continue;
      Sketch sketch = one.sketch;
      if (plan.schedule == plan::ScheduleKind::zero_bubble && !plan.sequence_parallel) sketch.schedule = plan.schedule;
      const auto value = attempt(sketch, plan);
      const bool first = plan.sequence_parallel && plan.schedule == one.trial.plan.schedule;
      if (first && stock_.devices > huge_pool) shares_tokens = value && *value < one.value;
    }
  }
}

std::optional<double> Refine::take(Forecasted&& fresh) {
  if (!fresh.trial.fits()) {
    if (!nearest_ || excess(fresh.trial) < excess(nearest_->trial)) nearest_ = std::move(fresh);
    return std::nullopt;
  }
  const auto value = value_of(fresh.trial.forecast, stock_.request.objective.goal);
  if (!value) return std::nullopt;
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

/// In the order of their estimates: the forecast is dear.
std::vector<Candidate> Refine::promising_moves(const Sketch& from) {
  Sketch here = from;
  const double most = estimate_(here).value * worth_forecasting;
  std::vector<Candidate> moves;
  const auto consider = [&](Sketch&& other) {
    const Estimate estimate = estimate_(other, most);
    if (estimate.fits && estimate.value <= most && !other.columns.empty()) moves.push_back({std::move(other), estimate});
    return false;
  };
  for_each_move(from, stock_, estimate_.levels(), consider);
  if (from.columns.size() * from.cuts.size() <= most_reshaped)
    for_each_reshaping(from, stock_, abilities_of(bench_.runtime()).unlike_degrees_in_a_stage, consider);
  std::ranges::stable_sort(moves, {}, [](const Candidate& c) { return c.estimate.value; });
  return moves;
}

/// From the best plans of several shapes, each on its own: what is best now may be a dead end.
void Refine::improve() {
  const bool small = stock_.devices <= small_pool;
  improve(found_, most_improvements(stock_.devices), small ? many_passes : most_passes);
}

/// What is best with whole backward passes seldom is with split ones.
void Refine::improve_split() {
  const auto is_split = [](const Forecasted& one) { return one.sketch.schedule == plan::ScheduleKind::zero_bubble; };
  const bool small = stock_.devices <= small_pool;
  if (!small && (stock_.devices > huge_pool || found_.empty() || !is_split(found_.front()))) return;
  std::vector<Forecasted> split;
  std::ranges::copy_if(found_, std::back_inserter(split), is_split);
  improve(split, small ? most_improvements(stock_.devices) : few_improvements, small ? many_passes : few_passes);
}

void Refine::improve(const std::vector<Forecasted>& best, int most_forecasts, std::int64_t passes) {
  const auto end = bench_.forecasts() + most_forecasts;
  const bool small = stock_.devices <= small_pool;
  const std::vector<Forecasted> begin(best.begin(), best.begin() + std::min<std::ptrdiff_t>(most_improved, std::ssize(best)));
  for (const Forecasted& start : begin) {
    if (start.sketch.columns.empty()) continue;
    if (!small && start.value > found_.front().value * worth_improving) break;
    Sketch here = start.sketch;
    double value = start.value;
    for (bool moved = true; moved;) {
      moved = false;
      for (const Candidate& move : promising_moves(here)) {
        passes -= passes_of(move.sketch);
        if (bench_.forecasts() >= end || passes < 0 || stop()) return;
        const auto reached = attempt(move.sketch);
        if (!reached || *reached >= value) continue;
        here = move.sketch, value = *reached, moved = true;
        break;
      }
    }
  }
}

}  // namespace flotilla::search::pool
