#pragma once
#include <span>
#include <vector>

#include "flotilla/cluster/slower_links.hpp"
#include "flotilla/monitor/self_check.hpp"

/// What findings mean for the profile. `slow` names the active ranks; `active_ranks` are their ranks in the job, in which the profile
/// counts.
namespace flotilla::monitor {

/// Pairs of the job's ranks whose link is slow. Of a group those links count that leave a host, or where all its members are on one that
/// host's own; where the findings name links of the group, these only.
std::vector<cluster::SlowPair> slow_pairs(const cluster::Profile&, std::span<const Slowness> slow, const std::vector<Rank>& active_ranks);

/// The profile with each slow device as a type of its own, and each slow link, slower by its factor.
cluster::Profile slowed(cluster::Profile, std::span<const Slowness> slow, const std::vector<Rank>& active_ranks);

}  // namespace flotilla::monitor
