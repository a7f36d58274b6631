#pragma once
#include "flotilla/simulate/forecast.hpp"
#include "machine.hpp"

namespace flotilla::simulate {

/// The step of one simulated rank, instant by instant (Activity says the rule); sums to `iteration`.
Breakdown attribute(const SimulatedRank&, const std::vector<Activity>& by_instruction, Seconds iteration);

}  // namespace flotilla::simulate
