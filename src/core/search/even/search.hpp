#pragma once
#include "problem.hpp"

namespace flotilla::search::even {

/// The best of some plans that are bound to the ranks already and, where time is the objective, of all even plans; with the bound of the
/// latter, infinite where they were searched to the end.
PlanAnswer best_for_ranks(const Problem&, const std::vector<plan::Plan>& others);

}  // namespace flotilla::search::even
