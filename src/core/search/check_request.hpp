#pragma once
#include "flotilla/search/planner.hpp"

namespace flotilla::search {

/// Throws Error{bad_input} for a request that contradicts itself or names what `library` does not know. Its constraints are settled.
void check(const PlanRequest&, const cluster::Profile& library);
/// What a device costs in what the goal counts, per second; 0 where that is unknown or time alone counts.
double price_of(const cluster::Profile& library, const std::string& type, const std::string& zone, Goal);
/// Throws Error{bad_input} for a profile whose ranks nobody can plan for: none, out of order, or of unknown memory.
void check_ranks(const cluster::Profile&);

}  // namespace flotilla::search
