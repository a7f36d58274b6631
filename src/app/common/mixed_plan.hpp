#pragma once
#include <optional>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/search/search.hpp"

namespace flotilla::app {

/// An unbound plan on the profile's devices, every tensor-parallel group inside one host, of each type and zone the lowest ranks first;
/// nothing where the profile has not enough of them, or where ranks that idle would lie between others (a plan of n devices is of ranks 0
/// to n-1).
std::optional<plan::Plan> on_devices(plan::Plan, const cluster::Profile&);

/// What planning over a pool (search::plan_by_program) makes of the profile's own devices: stages of several types, replicas of their own
/// degrees, microbatches and shares. Bound; nothing where it finds none, or the job fixes something of the plan (search::find_plan keeps to
/// that). Deterministic, but for the time limit of some seconds.
std::optional<plan::Plan> mixed_plan(const search::Request&, const cluster::Profile&, const program::Runtime&, Bytes runtime_constant);

}  // namespace flotilla::app
