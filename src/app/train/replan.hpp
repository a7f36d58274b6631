#pragma once
#include <optional>
#include <span>
#include <stop_token>

#include "app/common/job.hpp"
#include "flotilla/monitor/self_check.hpp"
#include "flotilla/session/active_plan.hpp"
#include "flotilla/session/segment_result.hpp"

namespace flotilla::app {

/// The profile with each slow device (`slow`: ranks are the active ranks', `active_ranks` the job's) as a type of its own, and each slow
/// link, slower by its factor. Of a group those links count that leave a host, or where all its members are on one that host's own.
cluster::Profile slowed(cluster::Profile, std::span<const monitor::Slowness> slow, const std::vector<Rank>& active_ranks);

/// Seconds that moving takes at the profile's links: the rank with the most to send or to receive, one message after the other.
Seconds moving_time(const cluster::Profile&, const plan::Plan& from, const plan::Plan& to);

/// The best plan for the devices and links as fast as they are now, plans that go round a slow link (session/host_permutation.hpp) among
/// them, where what it saves in the steps that are left is worth more than the change costs, twice over, and at least a twentieth of an
/// iteration. Local; its effort is counted, not timed. Throws nothing: without an answer the plan stays.
std::optional<session::NextPlan> plan_again(const session::RunContext&, const Job&, const session::ActivePlan&,
                                            std::span<const monitor::Slowness> slow, std::int64_t steps_left, const std::stop_token&);

}  // namespace flotilla::app
