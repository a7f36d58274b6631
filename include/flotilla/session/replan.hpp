#pragma once
#include <optional>
#include <span>
#include <stop_token>

#include "flotilla/monitor/self_check.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/session/active_plan.hpp"
#include "flotilla/session/segment_result.hpp"

namespace flotilla::session {

/// The best plan for the devices and links as fast as they are now, plans that go round a slow link among them, where what it saves in the
/// steps that are left is worth more than the change costs, twice over, and at least a twentieth of an iteration. `job`: what the job asks
/// of a plan. Local; its effort is counted, not timed. Throws nothing: without an answer the plan stays.
std::optional<NextPlan> plan_again(const RunContext&, const search::PlanRequest& job, const ActivePlan&,
                                   std::span<const monitor::Slowness> slow, std::int64_t steps_left, const std::stop_token&);

}  // namespace flotilla::session
