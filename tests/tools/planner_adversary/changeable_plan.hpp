#pragma once
#include <optional>
#include <string>
#include <vector>

#include "pool_instances.hpp"

namespace flotilla::tools {

/// Where a pipeline replica's stage stands.
struct Seat {
  int entry = 0;  ///< of the pool
  int tensor = 1;
  bool operator==(const Seat&) const = default;
};

/// One replica of every stage, along which microbatches travel.
struct Pipeline {
  std::vector<Seat> seats;  ///< by stage
  int microbatch = 1, sequences = 1;
};

/// A plan of pipelines in a form that is easy to change at random. Shares no code with the planner's search.
struct ChangeablePlan {
  std::vector<int> layers;  ///< of each stage
  std::vector<plan::Recompute> recompute;
  std::vector<Pipeline> pipelines;
  plan::ScheduleKind schedule = plan::ScheduleKind::one_f_one_b;
  int chunks = 1;
  bool sequence_parallel = false, shard_optimizer = false;
};

/// Nothing where stages have numbers of replicas of their own.
std::optional<ChangeablePlan> changeable(const plan::Plan&, const search::Pool&);
/// Unbound; nothing where it contradicts itself.
std::optional<plan::Plan> plan_of(const ChangeablePlan&, const search::PlanRequest&);

/// Changes it in one way: a cut, a microbatch, a degree, replicas, devices, zones, recomputation, schedule, chunks, sequence parallelism,
/// sharding, shares, depth. What comes out need not be possible. Returns the way's name.
const char* change_at_random(ChangeablePlan&, const search::PlanRequest&, fixture::Dice&);

}  // namespace flotilla::tools
