#pragma once
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::app {

/// A plan and the devices that it is forecast on, which are those of the profile.
struct BoundPlan {
  plan::Plan plan;
  cluster::Profile profile;
  std::string note;  ///< what was assumed, for people; empty: nothing
};

/// Bound to the profile's devices where it lists enough of them and their types are the plan's; else (a what-if, or a library) to devices
/// that plan::allocate invents. Throws Error{bad_input} naming `source`.
BoundPlan subject_of(plan::Plan, cluster::Profile, const std::string& source);

}  // namespace flotilla::app
