#pragma once
#include "flotilla/search/pool_planner.hpp"

namespace flotilla::search {

/// Throws Error{bad_input} for a request that contradicts itself or names what `library` does not know.
void check(const PoolRequest&, const cluster::Profile& library);

}  // namespace flotilla::search
