#pragma once
#include <memory>
#include <span>

#include "flotilla/compute/backend.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::compute {

/// A backend whose operands are in a device's memory and whose calls enqueue.
class DeviceBackend : public Backend {
 public:
  /// Returns when all that was enqueued is done. Throws Error{unavailable} after `limit`, or when the device is in error.
  virtual void wait(Seconds limit) = 0;
  virtual gpu::Stream& stream() = 0;
};

/// `kernels`: the image of the kernels, which stays where it is. Throws Error{unavailable} where the device, a kernel or cuBLASLt is
/// missing.
std::unique_ptr<DeviceBackend> make_cuda_backend(const Setup&, const gpu::Device&, std::span<const std::byte> kernels);
/// What set_scratch of such a backend needs, for microbatches of up to `sequences`. Needs no device.
Bytes cuda_scratch(const Setup&, int sequences);

}  // namespace flotilla::compute
