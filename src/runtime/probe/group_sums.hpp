#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::probe {

/// Candidate groups over NCCL, one after the other while everybody else rests: each is proved, then its all-reduces are timed. `gpu`: this
/// rank's, or null; `devices`: of all ranks, `on_gpus`: of those that have one. The same on every rank. Collective, ends in agreement.
std::vector<cluster::GroupSum> measure_group_sums(const comm::World&, const std::vector<cluster::Device>& devices,
                                                  const std::vector<cluster::Device>& on_gpus, const gpu::Device* gpu, Seconds budget,
                                                  Seconds deadline);

}  // namespace flotilla::probe
