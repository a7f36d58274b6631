#pragma once
// Private: groups whose buffers are in a device's memory, by ProcessGroup's interface. Addresses that operations are made with are the
// device's.
#include <memory>

#include "flotilla/comm/device_group.hpp"

namespace flotilla::comm {

/// Over NCCL, each operation on a stream of its own. `group`, `world` and `device` outlive it.
std::unique_ptr<ProcessGroup> make_enqueued_group(const World& world, DeviceGroup& group, const gpu::DeviceContext& device);

/// By MPI, from and to the device's memory. `tags`: as make_mpi_group's, its own.
std::unique_ptr<ProcessGroup> make_device_memory_group(const World& world, program::Group value, int tags, int tag_count,
                                                       const gpu::DeviceContext& device, const OrderedSum& ordered_sum);

/// A group on device memory, for data of the host: what is summed and gathered goes to the device and comes back. `group` and `device`
/// outlive it.
std::unique_ptr<ProcessGroup> make_host_view(ProcessGroup& group, const gpu::DeviceContext& device);

}  // namespace flotilla::comm
