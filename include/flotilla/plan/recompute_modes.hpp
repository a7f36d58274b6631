#pragma once
#include <set>

#include "flotilla/plan/plan.hpp"

namespace flotilla::plan {

/// What the plan's stages recompute, each mode once.
std::set<Recompute> recompute_modes(const Plan&);

}  // namespace flotilla::plan
