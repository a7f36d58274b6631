#pragma once
#include <functional>

#include "candidate_plan.hpp"

namespace flotilla::search::pool {

/// Larger changes of a candidate than for_each_move's, in a fixed order: a stage on other devices, in all equal columns or in one of them;
/// a stage's tensor degree doubled or halved; a block from one stage to another far off; two stages made one, one made two; two stages with
/// each other's devices; one more stage on idle devices; half as many stages in twice as many pipelines, and back.
void for_each_reshaping(const CandidatePlan&, const DevicePool&, const std::function<void(CandidatePlan&&)>& visit);

}  // namespace flotilla::search::pool
