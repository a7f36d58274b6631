#include "certainty.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "explain.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::search {
namespace {

constexpr double bar_probability = 0.9;  // of simulate::Forecast::relative_error

/// Half the width of the interval that holds a standard normal number with that probability: erf(x / root 2) = probability, by bisection.
double half_width(double probability) {
  double low = 0, high = 10;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (std::erf(middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return low;
}

Bytes smallest_memory(const plan::Plan& plan, const cluster::Profile& profile) {
  std::optional<Bytes> least;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      if (const auto* type = cluster::find_type(profile, replica.device_type); type != nullptr && type->memory.count > 0)
        least = std::min(least.value_or(type->memory), type->memory);
  return least.value_or(Bytes{std::numeric_limits<std::int64_t>::max()});
}

std::string why_less_certain(const RankedPlan& other, const RankedPlan& best, double confidence) {
  const double more = value_at_most(other, confidence) / value_at_most(best, confidence) - 1;
  const double forecast = other.value / best.value - 1;
  return text(percent(more), " more at most (", percent(confidence), "), ", percent(std::abs(forecast)), forecast < 0 ? " less" : " more",
              " by the forecast");
}

}  // namespace

double value_at_most(const RankedPlan& plan, double confidence) {
  return plan.value * (1 + plan.relative_error * half_width(confidence) / half_width(bar_probability));
}

cluster::Profile with_certain_memory(cluster::Profile profile, const program::Runtime& runtime, Precision precision) {
  if (!runtime.layers) return profile;  // our own peaks are exact, or stated bounds
  const double error = precision == Precision::fp32 ? runtime.layers->memory_error : runtime.layers->memory_error_half;
  for (auto& type : profile.device_types) type.memory = {static_cast<std::int64_t>(static_cast<double>(type.memory.count) / (1 + error))};
  return profile;
}

void add_certain_plans(PlanAnswer& answer, const PlanAnswer& others, const cluster::Profile& certain) {
  const auto add = [&](const RankedPlan& plan) {
    if (plan.fits && plan.peak_memory <= smallest_memory(plan.plan, certain)) answer.alternatives.push_back(plan);
  };
  if (others.best) add(*others.best);
  for (const auto& other : others.alternatives) add(other);
  answer.considered += others.considered;
  answer.pruned += others.pruned;
  answer.bound = answer.best ? std::min(answer.bound, others.bound) : others.bound;
  if (answer.best || answer.alternatives.empty()) return;
  answer.best = answer.alternatives.front();
  answer.alternatives.erase(answer.alternatives.begin());
  answer.binding = others.binding;
  answer.nearest_miss.reset();
  answer.no_plan_reason.clear();
}

void prefer_certain(PlanAnswer& answer, double confidence, int kept) {
  if (!answer.best) return;
  std::vector<RankedPlan> all{*answer.best};
  for (auto& other : answer.alternatives)
    if (other.fits) all.push_back(std::move(other));
  std::ranges::stable_sort(all, {}, [&](const RankedPlan& plan) { return value_at_most(plan, confidence); });
  const bool another = !(all.front().plan == answer.best->plan);
  answer.best = all.front();
  answer.best->reason.clear();
  answer.best->within_error = false;
  answer.bound_gap = std::clamp(1 - answer.bound / answer.best->value, 0.0, 1.0);
  answer.finished = false;
  answer.alternatives.clear();
  for (std::size_t i = 1; i < all.size() && static_cast<int>(i) <= kept; ++i) {
    RankedPlan other = std::move(all[i]);
    other.reason = why_less_certain(other, *answer.best, confidence);
    other.within_error &= !another;  // that was told of the plan with the least forecast
    answer.alternatives.push_back(std::move(other));
  }
}

}  // namespace flotilla::search
