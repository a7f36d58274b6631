#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/search/planner.hpp"

namespace flotilla::benchmarks {

/// The planner under one cost model, and that cost model by itself.
struct CostModel {
  std::string name;
  std::function<search::PlanAnswer(const search::PlanRequest&, const cluster::Profile&)> plan;
  /// Of an unbound plan.
  std::function<Seconds(const plan::Plan&, const cluster::Profile&)> iteration;
};

/// "rules": the Sailor artifact's formulas.
CostModel by_rules();
/// "program": our forecast of that runtime, "flotilla" or another; called by the runtime where it is another.
CostModel by_program(const std::string& runtime = "flotilla");

/// What one search took and what is wrong with its answer.
struct Evaluation {
  search::PlanAnswer answer;
  double cpu_ms = 0;               ///< median over the runs
  double peak_mib = 0;             ///< resident, the program and its data with it
  bool stopped = false;            ///< by the limit on CPU time
  std::string refusal;             ///< the cost model does not know something; nothing was searched
  std::vector<std::string> wrong;  ///< promises of the planner's header that do not hold
};

struct Effort {
  int runs = 5;             ///< fewer where one takes more than a fifth of limit_s
  double limit_s = 30;      ///< CPU time of one search
  bool is_checked = false;  ///< what is promised is worked out afresh
};

Evaluation try_out(const CostModel&, search::PlanRequest, const cluster::Profile&, const Effort&);

}  // namespace flotilla::benchmarks
