#pragma once
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::simulate {

/// Seconds that moving the training state from one plan's ranks to another's takes over the profile's links: of the rank with the most to
/// send or to receive, one message after the other, or of the fullest uplink where that takes longer. Both plans are bound to the
/// profile's devices.
Seconds moving_time(const cluster::Profile&, const plan::Plan& from, const plan::Plan& to);

}  // namespace flotilla::simulate
