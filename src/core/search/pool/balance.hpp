#pragma once
#include <optional>

#include "estimate.hpp"

namespace flotilla::search::pool {

/// Layers for the stages of one column so that the slowest stage is as fast as it can be and every stage fits its memory; nothing where no
/// cut fits. `microbatches`: of the column, which bounds what a stage keeps in flight.
std::optional<std::vector<int>> balance(Estimator&, Network&, const Column&, plan::Recompute, int microbatches);

/// As many blocks everywhere, the first stages one more.
std::vector<int> even_cuts(int blocks, int stages);

}  // namespace flotilla::search::pool
