#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::probe {

/// Candidate groups over a transport between devices, one after the other while everybody else rests: each is proved, then its all-reduces
/// are timed. Over NCCL, ours first, then NCCL's own, which pairs are candidates for, too. `gpu`: this rank's, or null; `devices`: of all
/// ranks, `on_gpus`: of those that the transport may join. The same on every rank. Collective, ends in agreement.
std::vector<cluster::GroupSum> measure_group_sums(const comm::World&, cluster::Transport, const std::vector<cluster::Device>& devices,
                                                  const std::vector<cluster::Device>& on_gpus, const gpu::DeviceContext* gpu,
                                                  Seconds budget, Seconds deadline);

}  // namespace flotilla::probe
