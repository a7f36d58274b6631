#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::probe {

/// The uplinks of zones whose hosts hold each other up on the way to other zones: several pairs of hosts send alone, then at
/// once (concurrent_pairs.hpp), zone by zone while everybody else rests. None where no zone has hosts enough, or none do. Rank 0 decides;
/// the same on every rank. Collective, ends in agreement.
std::vector<cluster::Uplink> measure_uplinks(const comm::World&, const std::vector<cluster::Device>&, Seconds budget, Seconds deadline);

}  // namespace flotilla::probe
