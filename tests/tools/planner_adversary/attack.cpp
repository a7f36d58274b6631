#include "attack.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "pool_judge.hpp"

namespace flotilla::tools {
namespace {

constexpr double warm = 0.03;        // of the value: how much worse a step may be at first
constexpr int tries_of_a_step = 50;  // until a change is possible
constexpr int rounds = 4;            // that the search starts anew

struct State {
  ChangeablePlan plan;
  double value = 1e300;
  std::map<std::string, double> by_change;
};

class Attacker {
 public:
  Attacker(const fixture::Instance& i, int seed) : i_{i}, judge_{i}, dice_{seed} {}

  Attack run(const search::PlanAnswer& answer, int forecasts) {
    attack_.answer = answer.best->value, attack_.best = answer.best->value;
    attack_.answer_plan = attack_.best_plan = answer.best->plan;
    std::vector<State> starts;
    add(starts, *answer.best);
    for (const auto& other : answer.alternatives) add(starts, other);
    for (int round = 0; round < rounds && !starts.empty(); ++round) {
      State begin = round % 2 == 0 ? starts.front() : dice_.one_of(starts);
      if (round > 0 && round % 2 == 0 && best_.value < begin.value) begin = best_;
      climb(begin, forecasts / rounds);
    }
    return attack_;
  }

 private:
  void add(std::vector<State>& starts, const search::RankedPlan& pooled) const {
    if (auto plan = changeable(pooled.plan, i_.request.pool)) starts.push_back({std::move(*plan), pooled.value, {}});
  }

  void climb(State here, int forecasts) {
    for (int f = 0; f < forecasts; ++f) {
      State next = here;
      std::vector<const char*> names;
      const auto value = step(next, names);
      if (!value) continue;
      next.value = *value;
      for (const char* name : names) next.by_change[name] += (here.value - *value) / *attack_.answer / static_cast<double>(names.size());
      const double heat = warm * (1 - static_cast<double>(f) / forecasts);
      if (*value > here.value * (1 + heat * dice_.real(0, 1))) continue;
      here = next;
      if (here.value < best_.value) best_ = here;
    }
  }

  /// Changes until something can be forecast.
  std::optional<double> step(State& state, std::vector<const char*>& names) {
    const ChangeablePlan from = state.plan;
    for (int t = 0; t < tries_of_a_step; ++t) {
      state.plan = from;
      names.clear();
      do names.push_back(change_at_random(state.plan, i_.request, dice_));
      while (dice_.chance(0.4) && names.size() < 4);
      const auto plan = plan_of(state.plan, i_.request);
      if (plan && is_possible(*plan)) return value_of(*plan);
    }
    return std::nullopt;
  }

  bool is_possible(const plan::Plan& plan) const {
    const int groups = model::largest_tensor_parallel(i_.request.model);
    for (const auto& stage : plan.stages)
      for (const auto& replica : stage.replicas)
        if (replica.tensor_parallel > groups) return false;
    if (!plan::validate(plan).empty() || !judge_.broken_restriction(plan).empty()) return false;
    try {
      return judge_.in_the_pool(plan);
    } catch (const Error&) {
      return false;
    }
  }

  std::optional<double> value_of(const plan::Plan& plan) {
    ++attack_.forecasts;
    try {
      const auto verdict = judge_.forecast(plan);
      if (!verdict.fits || !judge_.keeps_limits(verdict) || !verdict.value) return std::nullopt;
      if (*verdict.value < attack_.best) attack_.best = *verdict.value, attack_.best_plan = plan;
      return verdict.value;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
      return std::nullopt;
    }
  }

 public:
  const State& best() const { return best_; }

 private:
  const fixture::Instance& i_;
  fixture::Judge judge_;
  fixture::Dice dice_;
  Attack attack_;
  State best_;
};

}  // namespace

Attack attack(const fixture::Instance& i, const search::PlanAnswer& answer, int forecasts, int seed) {
  if (!answer.best) return {};
  Attacker attacker{i, seed};
  Attack result = attacker.run(answer, forecasts);
  result.by_change = attacker.best().by_change;
  return result;
}

}  // namespace flotilla::tools
