#pragma once
#include <array>
#include <vector>

#include "flotilla/simulate/instruction_cost.hpp"
#include "rank_partition.hpp"
#include "wires.hpp"

namespace flotilla::simulate {

/// What the instructions of one kind of rank cost, for a full microbatch and for the last one.
struct RankCosts {
  std::vector<std::array<Cost, 2>> costs;           ///< by instruction
  std::vector<std::array<double, 2>> wire_seconds;  ///< by instruction: what its bytes take, where they share a wire
};

/// Of one number of a collective: activations and refreshed weights travel in the plan's precision, gradients in fp32, scalars in fp64.
Bytes element_of(const program::Program&, program::CollectiveKind, bool per_microbatch);

/// Throws Error{internal} for a instruction that names a peer or group that the rank does not have, Error{bad_input} for a time that is
/// absurd.
RankCosts costs_of_rank_kind(const program::Program&, const RankPartition&, std::size_t kind, const Wires&, const InstructionCost&);

}  // namespace flotilla::simulate
