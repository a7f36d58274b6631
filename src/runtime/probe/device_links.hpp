#pragma once
#include <optional>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/gpu/device.hpp"
#include "flotilla/probe/probe.hpp"

namespace flotilla::probe {

/// Ranks among whose GPUs this transport is measured: which have it, if the request has it measured. None with fewer than two.
std::vector<Rank> ranks_to_measure(const ProbeRequest&, const Discovery&, cluster::Transport);

/// What a transport makes of the places that have GPUs.
struct DeviceLinks {
  std::vector<cluster::DeviceLink> links;  ///< the same on every rank
  Bytes memory;  ///< of this rank's device, that NCCL takes for each other member of a communicator, or MPI for each other GPU
};

/// Pairs as of links, among the ranks on GPUs: each is proved, then measured while everybody else rests, as training uses it: what is
/// enqueued does not wait for the host. `gpu`: this rank's, or null; `on_gpus`: the devices of all ranks that have one. None with fewer
/// than two. Collective, ends in agreement.
DeviceLinks measure_device_links(const comm::World&, const std::vector<cluster::Device>& on_gpus, const gpu::DeviceContext* gpu,
                                 Seconds budget, Seconds deadline);

/// The same of MPI on device memory, as measure_links() does with the hosts': messages that are compared, and sums, by the operations of
/// training, which a thread of the host polls.
DeviceLinks measure_device_memory_links(const comm::World&, const std::vector<cluster::Device>& on_gpus, const gpu::DeviceContext* gpu,
                                        Seconds budget, Seconds deadline);

}  // namespace flotilla::probe
