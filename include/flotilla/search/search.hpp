#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/manner.hpp"
#include "flotilla/simulate/forecast.hpp"
#include "flotilla/simulate/forecaster.hpp"

/// The planner: how to split a model over the devices at hand.
namespace flotilla::search {

/// What the user has already decided; the rest is searched.
struct Fixed {
  std::optional<int> data, pipeline, tensor;
  std::optional<int> microbatch;  ///< sequences
  std::optional<plan::ScheduleKind> schedule;
  std::optional<plan::Recompute> recompute;
  std::vector<int> cuts;        ///< layer boundaries of all stages from 0 to model.layers(); decides pipeline too; empty: searched
  std::optional<int> chunks{};  ///< stages that a device holds, `pipeline` of them in a row (Manner)
  std::optional<bool> sequence_parallel{}, shard_optimizer{};
  bool operator==(const Fixed&) const = default;
};
Manner manner_of(const Fixed&);

struct Request {
  model::Config model;
  int length = 0;        ///< tokens in a sequence
  int global_batch = 0;  ///< sequences
  Precision precision = Precision::fp32;
  Fixed fixed;
  std::optional<Bytes> memory_limit;  ///< per device, at most; its type's memory is a limit always
  int alternatives = 4;               ///< how many of the next best to keep
  std::function<bool()> should_stop;  ///< asked between forecasts; true: answer with the best so far
};

/// A plan that lost, and why.
struct Alternative {
  plan::Plan plan;
  Seconds iteration;
  Bytes peak_memory;
  std::string reason;  ///< "1.8 times slower: pipeline bubble 31 %"
};

/// The plan that came nearest to fitting.
struct Miss {
  plan::Plan plan;
  Rank rank;  ///< the device that is most over its limit
  Bytes needed, limit;
  simulate::MemoryForecast memory;  ///< of that device
  std::string contributors;         ///< the largest ones: "optimizer 1.9 GiB, activations 1.2 GiB"
  std::string change;               ///< the smallest change found that would make it fit
};

struct Answer {
  std::optional<plan::Plan> plan;         ///< bound to ranks; none: nothing fits (or the search was stopped before anything did)
  simulate::Forecast forecast;            ///< of `plan`
  std::vector<Alternative> alternatives;  ///< best first; each differs from the plan in degrees, microbatch, schedule or recomputation
  std::int64_t considered = 0;            ///< plans forecast
  std::int64_t pruned = 0;                ///< plans or families of plans that a bound excluded
  bool finished = false;                  ///< every plan of the space was forecast or excluded by a bound
  double bound_gap = 0;                   ///< no plan of the space is faster than (1 - bound_gap) x the answer
  std::optional<Miss> nearest_miss;       ///< when nothing fits for memory
  std::string no_plan_reason;             ///< one line, when there is no plan; nearest_miss has the particulars
};

/// The fastest plan for the profile's devices by `forecaster`, all or some of them; among equally fast ones that with the fewest devices.
/// The space: data x pipeline x tensor degrees (a tensor-parallel group inside one host), microbatch size, schedule, recomputation, any
/// contiguous layer cut. Deterministic. Throws Error{bad_input} when the request contradicts itself or the model (not when nothing fits).
Answer find_plan(const Request&, const cluster::Profile&, const simulate::BoundedForecaster&);

/// "data 2 x pipeline 3 x tensor 1, microbatch 4, 1f1b, no recomputation, layers 0-5-9-14": how people speak of an even plan.
std::string describe(const plan::Plan&);

}  // namespace flotilla::search
