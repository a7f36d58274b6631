#pragma once
#include <optional>
#include <span>
#include <vector>

#include "change_worth.hpp"
#include "flotilla/monitor/self_check.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/session/chosen_plan.hpp"

namespace flotilla::session {

/// A run at the moment of the question whether another plan would serve it better.
struct ReplanQuestion {
  const ChosenPlan& active;               ///< its profile: as fast as devices and links once were measured
  const std::vector<Rank>& active_ranks;  ///< by rank of the plan's programs: rank of the job
  int ranks = 0;                          ///< of the job
  std::span<const monitor::Slowness> slow;
  std::int64_t steps_left = 0;
  const program::Runtime& runtime;
  Bytes runtime_constant;
};

/// A plan that is worth changing to.
struct BetterPlan {
  plan::Plan plan;  ///< bound to the job's ranks
  ChangeOffer offer;
};

/// The best plan for the devices and links as fast as they are now, plans that go round a slow link (host_permutation.hpp) among them,
/// where that is worth the change (change_worth.hpp); else nothing. `request`: what the job asks of a plan. Pure but for the request's
/// should_stop; its effort is counted, not timed. Throws Error as search::plan does.
std::optional<BetterPlan> better_plan(const ReplanQuestion&, search::PlanRequest request);

}  // namespace flotilla::session
