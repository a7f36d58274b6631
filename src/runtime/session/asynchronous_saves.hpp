#pragma once
#include <memory>

#include "flotilla/checkpoint/background_save.hpp"
#include "flotilla/session/active_plan.hpp"

namespace flotilla::session {

/// What checkpoints are written by while the plan at work goes on; nothing where the job wants none, or where some rank has no room for a
/// copy of its state: then one line says so, and saves are synchronous. Notes in `work` what the copy takes. Collective over the active
/// ranks.
std::unique_ptr<checkpoint::BackgroundSave> asynchronous_saves(const RunContext&, ActivePlan& work);

}  // namespace flotilla::session
