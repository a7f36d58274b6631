#pragma once
#include "app/ending.hpp"
#include "app/plan_at_work.hpp"
#include "app/training_loop.hpp"

namespace flotilla::app {

/// Puts another plan to work in place, between two steps: forms its crew beside the old one, moves the training state straight from the
/// old owners to the new ones, then lets go of the old. Where a rank has no room for both, the crew saves under the new plan and the run
/// ends, to be started again. What cannot be prepared is refused, and the old plan stays at work. docs/design/replanning.md.
/// Collective over the world; `loop` is the crew's, nullptr on other ranks; `next` is the same everywhere. Throws when the move fails.
PlanChange change_plan(const Workplace&, PlanAtWork&, TrainingLoop* loop, const NextPlan& next, std::int64_t step);

}  // namespace flotilla::app
