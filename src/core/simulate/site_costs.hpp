#pragma once
#include <array>
#include <vector>

#include "flotilla/simulate/instruction_cost.hpp"
#include "kinds.hpp"
#include "wires.hpp"

namespace flotilla::simulate {

/// What the sites of one kind of rank cost, for a full microbatch and for the last one.
struct SiteCosts {
  std::vector<std::array<Cost, 2>> costs;           ///< by site
  std::vector<std::array<double, 2>> wire_seconds;  ///< by site: what its bytes take, where they share a wire
};

/// Throws Error{internal} for a site that names a peer or group that the rank does not have, Error{bad_input} for a time that is absurd.
SiteCosts costs_of_sites(const program::Program&, const Kinds&, std::size_t kind, const Wires&, const InstructionCost&);

}  // namespace flotilla::simulate
