#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "flotilla/compute/backend.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::compute {

/// `kernels`: the image of the kernels, which stays where it is. Throws Error{unavailable} where the device, a kernel or cuBLASLt is
/// missing.
std::unique_ptr<Backend> make_cuda_backend(const Setup&, const gpu::DeviceContext&, std::span<const std::byte> kernels);
/// What set_scratch of such a backend needs, for microbatches of up to `sequences`. Needs no device.
Bytes cuda_scratch(const Setup&, int sequences);

}  // namespace flotilla::compute
