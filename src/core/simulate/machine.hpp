#pragma once
#include <array>
#include <vector>

#include "flotilla/simulate/instruction_cost.hpp"
#include "kinds.hpp"
#include "listing.hpp"

namespace flotilla::simulate {

/// When an instruction ran, in seconds from the start of the step. `start` of a message or collective is when data began to move.
struct Moment {
  double start = 0, finish = -1;
  bool done() const { return finish >= 0; }
};

/// One simulated rank of each kind, its instructions and when they ran.
struct SimulatedRank {
  const Kind* kind = nullptr;
  const program::RankClass* rank_class = nullptr;
  Listing listing;
  std::vector<Moment> moments;             ///< by item
  std::vector<std::array<Cost, 2>> costs;  ///< by site: of a full microbatch, of the last one
  const Cost& cost(int item) const {
    const Item& it = listing.items[static_cast<std::size_t>(item)];
    return costs[static_cast<std::size_t>(it.site)][it.microbatch == rank_class->microbatches - 1 ? 1 : 0];
  }
};

/// Runs one rank of every kind to the end of the step.
///
/// Without contention between links the moment of every instruction is a maximum of sums of earlier moments, so no clock is needed: a
/// queue is advanced until it meets an event that has not happened yet and is taken up again when it has. Costs are monotone, hence
/// so are all moments: nothing gets slower when a device or link gets faster.
std::vector<SimulatedRank> run_machine(const program::Program&, const Kinds&, const InstructionCost&);

}  // namespace flotilla::simulate
