#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/objective.hpp"
#include "flotilla/simulate/sailor_rules.hpp"

/// The planner under the Sailor artifact's closed formulas (simulate/sailor_rules.hpp) and in that artifact's plan space: one microbatch
/// size, equal numbers of replicas in every stage, layers cut anywhere, every replica of its own device type, zone and tensor degree.
/// docs/design/plan-search.md says how it searches and what it proves.
namespace flotilla::search {

struct RulesRequest {
  model::Config model;
  int length = 0;        ///< tokens in a sequence; the library's layers were measured with model.positions
  int global_batch = 0;  ///< sequences
  Pool pool;
  Objective objective;
  std::function<bool()> should_stop{};        ///< asked between steps of the search; true: answer with the best so far
  double tolerance = 0;                       ///< the search may end once no plan can be better by more than this share
  std::int64_t most_partial_plans = 400'000;  ///< kept at once; the search ends there, unfinished
  int alternatives = 4;                       ///< how many of the next best to keep
};

/// A plan that lost.
struct RulesAlternative {
  plan::Plan plan;
  simulate::SailorEstimate estimate;
};

struct RulesAnswer {
  std::optional<plan::Plan> plan;  ///< by type and zone, bound to no device; none: nothing fits, or stopped before anything did
  simulate::SailorEstimate estimate{};
  double bound_gap = 1;            ///< proven: no plan of the space is better than (1 - bound_gap) x the answer
  bool finished = false;           ///< no part of the space is left whose bound is below the answer (by more than the tolerance)
  std::int64_t considered = 0;     ///< plans estimated
  std::int64_t partial_plans = 0;  ///< stages laid from the last one on
  std::int64_t pruned = 0;         ///< partial plans that a bound or a better one excluded
  std::vector<RulesAlternative> alternatives;
  std::string binding;         ///< what keeps the plan from being better: "devices of A100-40", "iteration cost of 1.2 USD", ...
  std::string no_plan_reason;  ///< one line, when there is no plan: the nearest miss and what would mend it
};

/// Tensor degrees are powers of two that divide the node of their pool entry: then counting devices is enough. Of the numbers of replicas
/// that need equally many microbatches the least is taken. Deterministic. Throws Error{bad_input} for a request that contradicts itself:
/// no devices, a type or model that the library does not know, a batch below 1, limits that are not positive.
RulesAnswer plan_by_rules(const RulesRequest&, const cluster::Profile& library);

}  // namespace flotilla::search
