#pragma once
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::app {

/// The plan on the first `ranks` devices of the profile. Devices of a plan written by hand may be left out: ranks are then dealt in order.
/// So may their types: they are what the ranks have. Throws Error that names `source`: no_plan when there are too few ranks, bad_input when
/// the plan names a rank or a type that is not there.
plan::Plan bound(plan::Plan, const cluster::Profile&, int ranks, const std::string& source);

/// A plan and the devices that it is forecast on, which are those of the profile.
struct Subject {
  plan::Plan plan;
  cluster::Profile profile;
  std::string note;  ///< what was assumed, for people; empty: nothing
};

/// Bound to the profile's devices where it lists enough of them and their types are the plan's; else (a what-if, or a library) to devices
/// that plan::allocate invents. Throws Error{bad_input} naming `source`.
Subject subject_of(plan::Plan, cluster::Profile, const std::string& source);

}  // namespace flotilla::app
