#pragma once
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::session {

/// The ranks of the job that a plan uses, ascending. The others wait until the run is over.
std::vector<Rank> active_ranks_of(const plan::Plan&);

/// Hosts of the ranks in their order, each once where its ranks follow each other: "n1, n2".
std::string hosts_of(const comm::World& active);

/// The plan with its devices numbered within the active ranks: what lowering and the active ranks' own communicator go by.
plan::Plan renumbered(plan::Plan, const std::vector<Rank>& active);

}  // namespace flotilla::session
