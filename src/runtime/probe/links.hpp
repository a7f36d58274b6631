#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/probe/probe.hpp"

namespace flotilla::probe {

/// Links between the devices, measured pair by pair while everybody else rests; the same on every rank. None with one rank. Collective,
/// ends in agreement.
std::vector<cluster::Link> measure_links(const comm::World&, const std::vector<cluster::Device>&, Seconds budget, Seconds deadline);

}  // namespace flotilla::probe
