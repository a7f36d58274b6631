#pragma once
#include "flotilla/checkpoint/state.hpp"

namespace flotilla::checkpoint {

/// Whether what this rank owns holds values that no training goes on from: a moment that is not finite, or a parameter of 1e18 or more,
/// whose square is next to where float ends. One pass over the state. Local.
bool has_exploded(const LocalState&);

}  // namespace flotilla::checkpoint
