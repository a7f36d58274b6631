#pragma once
#include "flotilla/search/planner.hpp"

namespace flotilla::search {

/// With PlanRequest::previous: what each plan of the answer moves, and of those at most `near_best` worse than the best the one that moves
/// least as the answer; the others are its alternatives, best first. Without it nothing.
void prefer_what_moves_least(PlanAnswer&, const PlanRequest&);

}  // namespace flotilla::search
