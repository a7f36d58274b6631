#pragma once
#include <vector>

#include "flotilla/bench/fabric_links.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::app {

/// What the network between these devices can do, and what MPI makes of it: inside each host that has two of them, and between hosts as
/// `flotilla bench` pairs them, in about rank 0's `time`. The same on every rank. Collective. Throws Error{communication} when a rank is
/// lost.
std::vector<bench::FabricLink> measure_network(const comm::World&, const std::vector<cluster::Device>&, Seconds time, Seconds deadline);

}  // namespace flotilla::app
