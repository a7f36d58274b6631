#pragma once
#include "line.hpp"
#include "refine.hpp"

namespace flotilla::search::pool {

/// Looks for lines that promise more than the best plan found, forecasts the best of them and changes those while that makes them better.
void try_lines(Estimator&, Network&, const std::vector<int>& microbatches, Refine&, const Bench&);

}  // namespace flotilla::search::pool
