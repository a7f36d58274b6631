#pragma once
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/objective.hpp"

namespace flotilla::search {

/// Whether a plan keeps to what somebody's runtime can do, seen from the plan alone: candidates are made to obey, but plans come from
/// elsewhere, too.
bool keeps_restrictions(const plan::Plan&, const Restrictions&);

}  // namespace flotilla::search
