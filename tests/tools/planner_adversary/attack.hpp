#pragma once
#include <map>

#include "changeable_plan.hpp"

namespace flotilla::tools {

struct Attack {
  std::optional<double> answer;  ///< the planner's value; none: no plan
  double best = 1e300;           ///< the least value that either found
  plan::Plan answer_plan, best_plan;
  std::map<std::string, double> by_change;  ///< what the kinds of change that led to the best gained
  int forecasts = 0;
  double gain() const { return answer ? 1 - best / *answer : 0; }
};

/// Random local search over the forecast that starts from the planner's answer and its alternatives, and tries to do better.
Attack attack(const fixture::Instance&, const search::PlanAnswer&, int forecasts, int seed);

}  // namespace flotilla::tools
