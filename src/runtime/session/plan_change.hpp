#pragma once
#include "flotilla/session/active_plan.hpp"
#include "flotilla/session/segment_result.hpp"
#include "plan_ahead.hpp"
#include "training_loop.hpp"

namespace flotilla::session {

/// Puts the plan that is ready to work in place, between two steps: moves the training state straight from the old owners to the new ones,
/// then lets go of the old crew. Where a rank has no room for both, the old crew saves under the new plan and the run ends, to be started
/// again. docs/design/replanning.md.
/// Collective over the world; `loop` is the crew's, nullptr on other ranks; `ready` and `ending` are the same everywhere. Throws when the
/// move fails.
PlanChange change_plan(const Workplace&, PlanAtWork&, TrainingLoop* loop, ReadyPlan ready, const Ending& ending);

}  // namespace flotilla::session
