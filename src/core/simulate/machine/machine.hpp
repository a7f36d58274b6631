#pragma once
#include <array>
#include <vector>

#include "flotilla/simulate/instruction_cost.hpp"
#include "listing.hpp"
#include "rank_partition.hpp"

namespace flotilla::simulate {

/// When an item ran, in seconds from the start of the step. `start` of a message or collective is when data began to move.
struct Moment {
  double start = 0, finish = -1;
  bool done() const { return finish >= 0; }
};

/// One simulated rank of each kind, its instructions and when they ran.
struct SimulatedRank {
  const EquivalentRanks* kind = nullptr;
  const program::RankClass* rank_class = nullptr;
  Listing listing;
  std::vector<std::array<Cost, 2>> costs;        ///< by instruction: of a full microbatch, of the last one
  std::array<std::vector<double>, 2> durations;  ///< by Listing::instructions likewise
  std::vector<Moment> moments;                   ///< by item
  std::vector<double> marked;                    ///< ends of marked members, from Item::marks on

  const program::Instruction& instruction(int s) const { return rank_class->instructions[static_cast<std::size_t>(s)]; }
  /// 1 for the last microbatch, which may be short.
  std::size_t variant_of(const Item& item) const { return item.microbatch == rank_class->microbatches - 1 ? 1 : 0; }
  double end_of(const Awaited& awaited) const {
    if (awaited.mark < 0) return moments[static_cast<std::size_t>(awaited.item)].finish;
    return marked[static_cast<std::size_t>(listing.items[static_cast<std::size_t>(awaited.item)].marks + awaited.mark)];
  }
};

/// Runs one rank of every kind to the end of the step.
///
/// Without contention between links the moment of every instruction is a maximum of sums of earlier moments, so no clock is needed: a
/// queue is advanced until it meets an event that has not happened yet and is taken up again when it has. Costs are monotone, hence
/// so are all moments: nothing gets slower when a device or link gets faster. A chain (chains.hpp) is run in one go, by the same additions
/// in the same order as one by one: it changes no bit of any moment.
///
/// Messages and collectives that share network cards with others (wires.hpp, traffic.hpp) are left until nothing else can be advanced; then
/// the first thing that happens to one of them does: it begins to move, or has moved. Whatever follows from that happens later, so time
/// never runs back.
///
/// Where exchanges and computing take time from each other (interference.hpp), the ranks run twice: to see what meets, then with what that
/// takes.
std::vector<SimulatedRank> run_machine(const program::Program&, const RankPartition&, const InstructionCost&);

}  // namespace flotilla::simulate
