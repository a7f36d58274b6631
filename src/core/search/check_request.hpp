#pragma once
#include "flotilla/search/planner.hpp"

namespace flotilla::search {

/// Throws Error{bad_input} for a request that contradicts itself or names what `library` does not know. Its constraints are settled.
void check(const PlanRequest&, const cluster::Profile& library);
/// Throws Error{bad_input} for a profile whose ranks nobody can plan for: none, out of order, or of unknown memory.
void check_ranks(const cluster::Profile&);

}  // namespace flotilla::search
