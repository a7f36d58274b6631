#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/bound_proof.hpp"
#include "flotilla/search/constraints.hpp"
#include "flotilla/search/objective.hpp"
#include "flotilla/simulate/forecaster.hpp"

/// The planner: which devices to take, and how to split a model over them, in one search. docs/design/planner.md says how.
namespace flotilla::search {

struct PlanRequest {
  model::Config model;
  int length = 0;        ///< tokens in a sequence
  int global_batch = 0;  ///< sequences
  Precision precision = Precision::fp32;
  Pool pool{};  ///< what may be taken; empty: the devices of the forecaster's profile, to whose ranks the plans are bound then
  Objective objective{};
  Restrictions restrictions{};
  Constraints constraints{};             ///< kept in every plan; with `shard_optimizer` open it is tried where nothing fits without
  std::optional<Bytes> memory_limit{};   ///< per device, at most; its type's memory is a limit always
  std::function<bool()> should_stop{};   ///< asked between steps of the search; true: answer with the best so far
  double tolerance = 0;                  ///< the search may end once no plan can be better by more than this share
  bool wants_proof = false;              ///< PlanAnswer::proof
  int alternatives = 4;                  ///< how many of the next best to keep
  std::optional<plan::Plan> previous{};  ///< what runs now: where the search starts; need not fit the pool any more
  double near_best = 0;                  ///< with `previous`: of the plans at most this share worse than the best, the one that moves least
  std::function<Bytes(int ranks)> process_memory{};  ///< of a pool: bound of our process beside its arena, on a host of so many ranks
};

/// A plan and what it comes to.
struct RankedPlan {
  plan::Plan plan;  ///< by type and zone; bound to ranks where the request names no pool
  Seconds iteration;
  double value = 0;           ///< of the objective: seconds, US dollars, billing units or joules per iteration
  std::optional<double> usd;  ///< per iteration, where devices have prices
  int devices = 0;
  Bytes peak_memory;          ///< of the fullest device
  Bytes moved{};              ///< with PlanRequest::previous: that devices of the new plan do not hold yet
  std::string reason;         ///< of an alternative: why it lost, "3.1 % slower: ..."
  bool within_error = false;  ///< of an alternative: the difference to the best is within the forecasts' errors
  double relative_error = 0;  ///< simulate::Forecast::relative_error; 0 by closed formulas
  bool fits = true;           ///< an alternative that lacks memory says what more of it would bring
};

/// The plan that came nearest to fitting the memory.
struct Miss {
  plan::Plan plan;
  int stage = 0;                    ///< whose device is most over its limit
  Rank rank{};                      ///< that device, where plans are bound to ranks
  std::string device_type;          ///< its type
  Bytes needed, limit;              ///< of that device
  simulate::MemoryForecast memory;  ///< of that device
  std::string contributors;         ///< the largest ones: "optimizer 1.9 GiB, activations 1.2 GiB"
  std::string change;               ///< the smallest change found that would make it fit; empty: none was found
};

struct PlanAnswer {
  std::optional<RankedPlan> best;        ///< none: nothing fits, or stopped before anything did
  std::vector<RankedPlan> alternatives;  ///< best first, of every shape one
  double bound = 0;                      ///< proven: of the objective's value, that no plan of the space is below
  double bound_gap = 1;                  ///< proven: no plan of the space is better than (1 - bound_gap) x the answer
  bool finished = false;                 ///< no part of the space is left whose bound is below the answer (by more than the tolerance)
  std::int64_t considered = 0;           ///< plans whose time was worked out
  std::int64_t pruned = 0;               ///< plans or families of plans that an estimate or a bound left out
  std::string space;                     ///< in words: what was searched
  std::string binding;                   ///< what keeps the plan from being better: "devices of A100-40", "iteration cost of 1.2 USD", ...
  std::optional<Miss> nearest_miss;      ///< where nothing fits the memory and the forecaster forecasts programs
  std::string no_plan_reason;            ///< one line, when there is no plan: the nearest miss and what would mend it
  std::optional<BoundProof> proof;       ///< of bound_gap, if it was asked for and the bound has one
};

/// The best plan for the request that the forecaster knows of: the best that any of its candidate generators finds, with one bound for all
/// of them. How to search depends on the forecaster:
///   that forecasts programs of a runtime (simulate::ProgramForecaster): all plans that PlanAnswer::space says, by estimates and forecasts;
///     for bound ranks every even plan besides, by branch and bound;
///   closed formulas (sailor::SailorArtifact): exactly, in the space of that artifact's planner. They know 1F1B alone, and demand no
///   devices.
/// Deterministic: effort is counted, never timed. The same request has the same answer on any machine, unless it is told to stop. For a
/// pool the forecaster's profile needs no devices; types of the pool that it does not know must have been completed from the catalogue.
/// Throws Error{bad_input} for a request that contradicts itself or the model: no devices, an unknown type, a batch below 1, limits that
/// are not positive, an objective whose prices are missing; Error{unavailable} for constraints that the formulas do not know. That nothing
/// fits is an answer.
PlanAnswer plan(const PlanRequest&, const simulate::Forecaster&);

/// The profile with DeviceType::per_node as the pool says; where entries of one type differ in it, the smallest.
cluster::Profile with_node_sizes(cluster::Profile, const Pool&);

/// "data 2 x pipeline 3 x tensor 1, microbatch 4, 1f1b, no recomputation, layers 0-5-9-14": how people speak of an even plan.
std::string describe(const plan::Plan&);

}  // namespace flotilla::search
