#pragma once
#include "flotilla/sailor/artifact.hpp"
#include "flotilla/search/planner.hpp"

namespace flotilla::search::rules {

/// By the closed formulas of the Sailor artifact (sailor/formulas.hpp), in that artifact's space, exactly: one microbatch size,
/// equally many replicas in every stage, layers cut anywhere, every replica of its own type, zone and tensor degree (powers of two that
/// divide the node). Of a checked request; throws Error{unavailable} for what is not of this space. `forecaster` says of the plans found
/// what an answer tells; `library` is its profile, with the request's limit on memory.
PlanAnswer plan_by_rules(const PlanRequest&, const cluster::Profile& library, const sailor::SailorArtifact& forecaster);

}  // namespace flotilla::search::rules
