#pragma once
#include "flotilla/simulate/forecast.hpp"
#include "machine.hpp"

namespace flotilla::simulate {

Activity activity_of(const program::Site&, program::Group::Kind);

/// The step of one simulated rank, instant by instant (Activity says the rule); sums to `iteration`.
Breakdown attribute(const program::Program&, const SimulatedRank&, Seconds iteration);

/// Activity of an item of a simulated rank.
Activity activity_of(const program::Program&, const SimulatedRank&, int item);

}  // namespace flotilla::simulate
