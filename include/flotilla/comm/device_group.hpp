#pragma once
#include <functional>
#include <span>

#include "flotilla/comm/process_group.hpp"
#include "flotilla/gpu/device.hpp"
#include "flotilla/nccl/communicator.hpp"

namespace flotilla::comm {

/// Adds a group's contributions on a device, as the kernel `ordered_sum` does: in member order, in fp32, rounded once. This member's stands
/// in `sum`, which takes the result; the others' stand one after the other in `others`, `count` elements each.
using OrderedSum = std::function<void(ElementType, gpu::DevicePointer sum, gpu::DevicePointer others, int members, int mine,
                                      std::int64_t count, const gpu::Stream&)>;
/// By the kernel, which is in `kernels` for this device. Throws Error{unavailable} when it cannot be loaded.
OrderedSum make_ordered_sum(const gpu::DeviceContext&, std::span<const std::byte> kernels);

/// A group whose members compute on GPUs that NCCL connects. Its operations are ProcessGroup's, on device memory: each is enqueued on the
/// stream given and ends there. Sums have the very bits of an MPI group's: pieces travel as messages, and OrderedSum adds them; but the
/// all-reduce of a group whose algorithm is library_all_reduce is NCCL's own. fp64 is not summed on devices. All members enqueue the same
/// operations in the same order. Errors are nccl::NcclCommunicator's.
class DeviceGroup {
 public:
  DeviceGroup(program::Group value, int index, nccl::NcclCommunicator, OrderedSum);

  const program::Group& value() const noexcept { return value_; }
  int index() const noexcept { return index_; }
  int size() const noexcept { return static_cast<int>(value_.members.size()); }
  nccl::NcclCommunicator& communicator() noexcept { return communicator_; }

  void all_reduce(gpu::DevicePointer data, ElementType, Bytes size, gpu::DevicePointer staging, const gpu::Stream&);
  void reduce_scatter(gpu::DevicePointer data, ElementType, Bytes unit, Bytes size, gpu::DevicePointer staging, const gpu::Stream&);
  void reduce_scatter_shards(gpu::DevicePointer data, ElementType, Bytes size, gpu::DevicePointer staging, const gpu::Stream&);
  void all_gather_shards(gpu::DevicePointer data, Bytes element, Bytes size, const gpu::Stream&);
  /// Member i's `size` bytes at all + i * size, mine in its place already.
  void all_gather(gpu::DevicePointer all, Bytes size, const gpu::Stream&);
  void gather_pieces(gpu::DevicePointer data, Bytes unit, Bytes size, const gpu::Stream&);
  /// One message to a member or from it. Between two members they match in the order of their calls.
  void send(int member, gpu::DevicePointer data, Bytes size, const gpu::Stream&);
  void receive(int member, gpu::DevicePointer data, Bytes size, const gpu::Stream&);

 private:
  program::Group value_;
  int index_;
  nccl::NcclCommunicator communicator_;
  OrderedSum ordered_sum_;
};

/// The same group for data of the host: each operation's goes to the device and comes back. For proofs and tests, not for speed. `group`,
/// `world` and `device` outlive it.
std::unique_ptr<ProcessGroup> make_host_view(const World& world, DeviceGroup& group, const gpu::DeviceContext& device);

}  // namespace flotilla::comm
