#pragma once
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::plan {

/// Deals ranks in order to devices that the plan leaves out, stage by stage; chunks of one device share its ranks.
void deal_ranks(Plan&);

/// The plan on the first `ranks` devices of the profile. Devices of a plan written by hand may be left out: ranks are then dealt in order.
/// So may their types: they are what the ranks have. Throws Error that names `source`: no_plan when there are too few ranks, bad_input when
/// the plan names a rank or a type that is not there.
Plan bound(Plan, const cluster::Profile&, int ranks, const std::string& source);

}  // namespace flotilla::plan
