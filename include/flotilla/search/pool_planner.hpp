#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/search/manner.hpp"
#include "flotilla/search/objective.hpp"

/// Planning over a pool: what to allocate of it, and how to split the model over that, in one search. docs/design/plan-search.md says how.
namespace flotilla::search {

struct PoolRequest {
  model::Config model;
  int length = 0;        ///< tokens in a sequence
  int global_batch = 0;  ///< sequences
  Precision precision = Precision::fp32;
  Pool pool;
  Objective objective;
  Restrictions restrictions;
  std::function<bool()> should_stop{};               ///< asked between steps of the search; true: answer with the best so far
  double tolerance = 0;                              ///< the search may end once no plan can be better by more than this share
  int alternatives = 4;                              ///< how many of the next best to keep
  std::optional<plan::Plan> previous{};              ///< what runs now: where the search starts; need not fit the pool any more
  std::function<Bytes(int ranks)> process_memory{};  ///< bound of our runtime's process beside its arena, on a host of so many ranks
  double near_best = 0;          ///< with `previous`: of the plans at most this share worse than the best, the one that moves least
  Manner manner{};               ///< kept in every plan; what it leaves open is searched
};

/// A plan and what it comes to.
struct PooledPlan {
  plan::Plan plan;  ///< by type and zone, bound to no device
  Seconds iteration;
  double value = 0;           ///< of the objective: seconds, US dollars, billing units or joules per iteration
  std::optional<double> usd;  ///< per iteration, where devices have prices
  int devices = 0;
  Bytes peak_memory;   ///< of the fullest device
  Bytes moved{};       ///< with PoolRequest::previous: that devices of the new plan do not hold yet
  std::string reason;  ///< of an alternative: why it lost, "3.1 % slower: ..."
};

struct PoolAnswer {
  std::optional<PooledPlan> best;        ///< none: nothing fits, or stopped before anything did
  std::vector<PooledPlan> alternatives;  ///< best first
  double bound_gap = 1;                  ///< proven: no plan of the space is better than (1 - bound_gap) x the answer
  bool finished = false;                 ///< no part of the space is left whose bound is below the answer (by more than the tolerance)
  std::int64_t considered = 0;           ///< plans whose time was worked out
  std::int64_t pruned = 0;               ///< plans or families of plans that an estimate or a bound left out
  std::string space;                     ///< in words: what was searched
  std::string binding;                   ///< what keeps the plan from being better: "devices of A100-40", "iteration cost of 1.2 USD", ...
  std::string no_plan_reason;            ///< one line, when there is no plan: the nearest miss and what would mend it
};

/// The profile with DeviceType::per_node as the pool says; where entries of one type differ in it, the smallest.
cluster::Profile with_node_sizes(cluster::Profile, const Pool&);

/// By the forecast of programs: ours (simulate::ProgramForecaster) of `runtime`. `library` needs no devices; types of the pool that it does
/// not know must have been completed from the catalogue. Deterministic. Throws Error{bad_input} for a request that contradicts itself: no
/// devices, an unknown type, a batch below 1, limits that are not positive, an objective whose prices are missing.
PoolAnswer plan_by_program(const PoolRequest&, const cluster::Profile& library, const program::Runtime&);

/// By the closed formulas of the Sailor artifact (simulate/sailor_rules.hpp), in that artifact's space: one microbatch size, equally many
/// replicas in every stage, layers cut anywhere, every replica of its own type, zone and tensor degree (powers of two that divide the
/// node).
PoolAnswer plan_by_rules(const PoolRequest&, const cluster::Profile& library);

}  // namespace flotilla::search
