#pragma once
#include <optional>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/objective.hpp"

/// Bound ranks as a pool, and plans over that pool on the ranks.
namespace flotilla::search {

/// The profile's own devices: an entry for each type, zone and number of them on a host.
Pool pool_of_devices(const cluster::Profile&);

/// An unbound plan on the profile's devices, every tensor-parallel group inside one host, of each type and zone the lowest ranks first;
/// nothing where the profile has not enough of them, or where ranks that idle would lie between others (a plan of n devices is of ranks 0
/// to n-1).
std::optional<plan::Plan> on_devices(plan::Plan, const cluster::Profile&);

/// Without the ranks of its devices; types and zones stay.
plan::Plan unbound(plan::Plan);

}  // namespace flotilla::search
