#pragma once
#include "flotilla/comm/device_group.hpp"

namespace flotilla::comm {

using DeviceGroups = std::vector<std::unique_ptr<DeviceGroup>>;

/// Connects by NCCL the groups that are `wanted` (by index, the same on all ranks) and whose members all compute on a GPU and have NCCL,
/// and proves them as verify() does. By index as in `groups`, which MPI connects and which are proved; nullptr where this rank is no member
/// or alone, and where NCCL fails: that group goes on over MPI, and its first member warns with the reason. `device`: this rank's, or null.
/// `refusals`, where wanted: by index, that reason; empty where the group was not wanted, is not this rank's, or is connected. Collective
/// over the world.
DeviceGroups form_device_groups(const World& world, const Groups& groups, const std::vector<bool>& wanted, const gpu::DeviceContext* device,
                                const OrderedSum& ordered_sum, Seconds deadline, std::vector<std::string>* refusals = nullptr);

/// The same by MPI, whose library must take device memory where it takes the host's, and say so (mpi::why_no_device_memory): operations
/// of ProcessGroup on addresses of `device`, in fp32, bf16 and fp16, with the bits of groups on hosts. What fails goes on through the
/// hosts' memory. `values`: those that `groups` were connected from.
Groups form_device_memory_groups(const World& world, const std::vector<program::Group>& values, const Groups& groups,
                                 const std::vector<bool>& wanted, const gpu::DeviceContext* device, const OrderedSum& ordered_sum,
                                 Seconds deadline, std::vector<std::string>* refusals = nullptr);

}  // namespace flotilla::comm
