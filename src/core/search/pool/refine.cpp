#include "refine.hpp"

#include <algorithm>

#include "families.hpp"
#include "moves.hpp"
#include "obedience.hpp"
#include "reshape.hpp"
#include "variants.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::ptrdiff_t most_varied = 2;
constexpr std::size_t most_starts = 4;  // of local search, on few devices
constexpr int few_devices = 64;
constexpr std::size_t most_reshaped = 128;  // stages x kinds of columns
constexpr int most_steps = 40;              // of a local search
constexpr double doubt = 1.1;               // estimates are closer than this to the forecasts, nearly always
constexpr double promising = 1.01;          // a move whose estimate is worse by more is not forecast

bool better(const Forecasted& a, const Forecasted& b) {
  if (a.value != b.value) return a.value < b.value;
  if (a.trial.devices != b.trial.devices) return a.trial.devices < b.trial.devices;
  return a.trial.forecast.iteration < b.trial.forecast.iteration;
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
      const bool moved = for_each_move(here.sketch, stock_, [&](Sketch&& other) {
        const Estimate estimate = estimate_(other);
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
  for (const Candidate& candidate : list.candidates()) {
    if (!found_.empty() && stop()) return;
    const bool enough = static_cast<int>(found_.size()) > stock_.request.alternatives;
    if (enough && candidate.estimate.value > found_.front().value * doubt) break;
    attempt(candidate.sketch);
  }
  for (const Candidate& candidate : list.tight()) {
    if (!found_.empty() && (stop() || candidate.estimate.value > found_.front().value * doubt)) break;
    attempt(candidate.sketch);
  }
  for (const Candidate& candidate : list.doubtful()) {
    if (!found_.empty() && (stop() || candidate.estimate.value > found_.front().value)) continue;
    attempt(candidate.sketch);
  }
  if (found_.empty() && !broken_ && list.nearest_miss()) attempt(list.nearest_miss()->sketch);
}

bool Refine::attempt(const Sketch& sketch) {
  if (std::ranges::find(tried_, sketch) != tried_.end()) return false;
  tried_.push_back(sketch);
  const auto plan = plan_of(sketch, stock_);
  return stock_.holds(plan) && attempt(sketch, plan);
}

bool Refine::attempt(const plan::Plan& plan) { return stock_.holds(plan) && attempt({}, plan); }

bool Refine::attempt(const Sketch& sketch, const plan::Plan& plan) {
  const bool known = std::ranges::any_of(found_, [&](const Forecasted& f) { return f.trial.plan == plan; });
  if (known || !obeys(plan, stock_.request.restrictions)) return false;
  auto trial = bench_.forecast(plan);
  return trial && take({sketch, std::move(*trial), 0});
}

void Refine::vary() {
  const std::vector<Forecasted> best(found_.begin(), found_.begin() + std::min<std::ptrdiff_t>(most_varied, std::ssize(found_)));
  for (const Forecasted& one : best)
    for (const auto& plan : variants_of(one.trial.plan))
      if (!stop()) attempt(one.sketch, plan);
}

bool Refine::take(Forecasted&& fresh) {
  if (!fresh.trial.fits()) {
    if (!nearest_ || excess(fresh.trial) < excess(nearest_->trial)) nearest_ = std::move(fresh);
    return false;
  }
  const auto value = value_of(fresh.trial.forecast, stock_.request.objective.goal);
  if (!value) return false;
  if (const double broken = over_limits(fresh.trial.forecast, fresh.trial.devices, stock_.request.objective.limits); broken > 1) {
    if (!broken_ || broken < broken_->second) broken_.emplace(std::move(fresh.trial), broken);
    return false;
  }
  fresh.value = *value;
  const bool first = found_.empty() || better(fresh, found_.front());
  const auto alike = std::ranges::find_if(found_, [&](const Forecasted& f) { return same_shape(f.sketch, fresh.sketch, stock_); });
  if (alike != found_.end()) {
    if (!better(fresh, *alike)) return false;
    found_.erase(alike);
  }
  found_.insert(std::upper_bound(found_.begin(), found_.end(), fresh, better), std::move(fresh));
  return first;
}

/// Moves from the best plan while they make it better, then from the next best ones.
void Refine::improve(int most_forecasts) {
  const auto end = bench_.forecasts() + most_forecasts;
  const std::size_t starts = stock_.devices <= few_devices ? most_starts : 1;
  std::vector<Sketch> looked;
  while (bench_.forecasts() < end && looked.size() < starts && !stop()) {
    const auto fresh = std::ranges::find_if(
        found_, [&](const Forecasted& f) { return !f.sketch.columns.empty() && std::ranges::find(looked, f.sketch) == looked.end(); });
    if (fresh == found_.end()) return;
    looked.push_back(fresh->sketch);
    if (improve_from(fresh->sketch, end)) looked.clear();
  }
}

/// Whether a better plan than the best was found. Moves in the order of their estimates: the forecast is dear.
bool Refine::improve_from(Sketch here, std::int64_t end) {
  const double best = found_.front().value, most = estimate_(here).value * promising;
  std::vector<Candidate> moves;
  const auto consider = [&](Sketch&& other) {
    const Estimate estimate = estimate_(other);
    if (estimate.fits && estimate.value <= most && !other.columns.empty()) moves.push_back({std::move(other), estimate});
  };
  for_each_move(here, stock_, [&](Sketch&& other) {
    consider(std::move(other));
    return false;
  });
  if (here.columns.size() * here.cuts.size() <= most_reshaped)
    for_each_reshaping(here, stock_, abilities_of(bench_.runtime()).unlike_degrees_in_a_stage, consider);
  std::ranges::stable_sort(moves, {}, [](const Candidate& c) { return c.estimate.value; });
  for (std::size_t i = 0; i < moves.size() && bench_.forecasts() < end && !stop(); ++i)
    if (attempt(moves[i].sketch) && found_.front().value < best) return true;
  return false;
}

}  // namespace flotilla::search::pool
