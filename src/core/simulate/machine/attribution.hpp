#pragma once
#include "flotilla/simulate/forecast.hpp"
#include "machine.hpp"

namespace flotilla::simulate {

Activity activity_of(const program::Instruction&, program::Group::Kind);

/// By instruction of a simulated rank.
std::vector<Activity> activities_of(const program::Program&, const SimulatedRank&);

/// The step of one simulated rank, instant by instant (Activity says the rule); sums to `iteration`.
Breakdown attribute(const SimulatedRank&, const std::vector<Activity>& by_instruction, Seconds iteration);

}  // namespace flotilla::simulate
