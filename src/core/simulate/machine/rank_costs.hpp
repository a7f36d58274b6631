#pragma once
#include <array>
#include <unordered_map>
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

/// One collective of a group, which all its members' kinds of rank ask for, layer by layer.
struct CollectiveKey {
  program::CollectiveKind kind{};
  const program::Group* group = nullptr;
  Bytes bytes, element;
  Flows flows;
  bool operator==(const CollectiveKey&) const = default;
};
struct CollectiveKeyHash {
  std::size_t operator()(const CollectiveKey&) const;
};
using CollectiveCosts = std::unordered_map<CollectiveKey, Cost, CollectiveKeyHash>;

/// `collectives`: of the program that were asked for. Throws Error{internal} for a instruction that names a peer or group that the rank
/// does not have, Error{bad_input} for a time that is absurd.
RankCosts costs_of_rank_kind(const program::Program&, const RankPartition&, std::size_t kind, const Wires&, const InstructionCost&,
                             CollectiveCosts& collectives);

}  // namespace flotilla::simulate
