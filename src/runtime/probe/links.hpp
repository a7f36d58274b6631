#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/probe/probe.hpp"
#include "pairs.hpp"
#include "ping_pong.hpp"

namespace flotilla::probe {

/// Links between the devices, measured pair by pair while everybody else rests; the same on every rank. None with one rank. Collective,
/// ends in agreement.
std::vector<cluster::Link> measure_links(const comm::World&, const std::vector<cluster::Device>&, Seconds budget, Seconds deadline);

/// Each pair as a group of two.
std::vector<program::Group> groups(const std::vector<Pair>&);

/// The owner's samples on all ranks: `mine` there, null elsewhere. Collective.
std::vector<cluster::LinkSample> shared(const comm::World&, Rank owner, const std::vector<cluster::LinkSample>* mine, Seconds deadline);

/// What the samples of a pair's first rank say, to all ranks: `mine` there, null elsewhere. Collective.
cluster::Link shared_link(const comm::World&, const Pair&, const LinkSamples* mine, Seconds deadline);

}  // namespace flotilla::probe
