#pragma once
#include <span>

#include "flotilla/bench/verdict.hpp"

namespace flotilla::bench {

/// Software of a node, whose answers only nodes with the same need share; "" where it says none.
std::string software_of(const NodeReport&);

/// Of these nodes alone: as learn(), each node once.
Baselines baselines_of(std::span<const NodeReport* const> nodes, int fewest, bool with_busy = false);

}  // namespace flotilla::bench
