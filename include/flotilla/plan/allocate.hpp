#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::plan {

/// A plan and the devices that its ranks stand for.
struct AllocatedPlan {
  Plan plan;
  std::vector<cluster::Device> devices;  ///< by rank
};

/// Invents devices for an unbound plan: ranks stage by stage, replica by replica, tensor index by tensor index. Devices of one zone and
/// type fill hosts of DeviceType::per_node (8 where the profile does not say), wide replicas first, each on the fullest host that has
/// room; a replica that fits a host never straddles two, a wider one begins on a fresh one. Threads are 1. Throws Error{bad_input} naming a
/// type that the profile does not know. A bound plan is refused the same way.
AllocatedPlan allocate(const Plan&, const cluster::Profile&);

}  // namespace flotilla::plan
