#pragma once
#include "flotilla/search/planner.hpp"

namespace flotilla::search::rules {

/// By the closed formulas of the Sailor artifact (sailor/formulas.hpp), in that artifact's space, exactly: one microbatch size,
/// equally many replicas in every stage, layers cut anywhere, every replica of its own type, zone and tensor degree (powers of two that
/// divide the node). Of a checked request; throws Error{unavailable} for constraints that are not of this space.
PlanAnswer plan_by_rules(const PlanRequest&, const cluster::Profile& library);

}  // namespace flotilla::search::rules
