#pragma once
#include <span>
#include <vector>

#include "flotilla/cluster/slower_links.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::session {

/// The same plan standing elsewhere on its devices: a host at either end of a slow link has changed places with another host of the plan
/// that has as many devices, of the same types and in the same zone. What is sent between neighbours in the plan goes another way then.
std::vector<plan::Plan> host_permutations(const plan::Plan&, const cluster::Profile&, std::span<const cluster::SlowPair>);

}  // namespace flotilla::session
