#pragma once
#include "flotilla/session/active_plan.hpp"
#include "flotilla/session/segment_result.hpp"
#include "plan_ahead.hpp"
#include "training_loop.hpp"

namespace flotilla::session {

/// Puts the plan that is ready to work in place, between two steps: moves the training state straight from the old owners to the new ones,
/// then lets go of the old active ranks. Where a rank has no room for both, the old active ranks saves under the new plan and the run ends,
/// to be started again. docs/design/replanning.md. Collective over the world; `loop` is the active ranks', nullptr on other ranks; `ready`
/// and `segment_result` are the same everywhere. Throws when the move fails.
PlanChange change_plan(const RunContext&, ActivePlan&, TrainingLoop* loop, ReadyPlan ready, const SegmentResult& segment_result);

}  // namespace flotilla::session
