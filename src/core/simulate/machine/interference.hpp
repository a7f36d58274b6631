#pragma once
#include <array>
#include <vector>

#include "flotilla/simulate/instruction_cost.hpp"
#include "machine.hpp"

namespace flotilla::simulate {

/// Seconds that a run of an instruction takes beside its cost: by rank, for a full microbatch and the last one, by Listing::instructions.
using AddedSeconds = std::vector<std::array<std::vector<double>, 2>>;

/// What exchanges and computing take from each other (cluster::Interference), from a run without it: means over the runs of each
/// instruction. An end of a message, or a phase of a collective, is late where its rank computes meanwhile; computing loses its share
/// while an exchange moves, and a group's (InstructionCost::collective_share) while a collective does. Empty where nothing is taken.
AddedSeconds interference(const program::Program&, const std::vector<SimulatedRank>& ranks, const InstructionCost& cost);

}  // namespace flotilla::simulate
