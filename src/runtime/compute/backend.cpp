// One factory for all devices.
#include "flotilla/compute/backend.hpp"

#include "cpu/backend.hpp"
#include "cuda/backend.hpp"
#include "cuda/products.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/compute/kernel_image.hpp"

namespace flotilla::compute {

std::unique_ptr<Backend> make_backend(const Setup& setup) {
  if (setup.device.kind == cluster::DeviceKind::cpu) return make_cpu_backend(setup);
  const auto device = gpu::DeviceContext::open(setup.device.ordinal);
  return make_cuda_backend(setup, device, kernel_image(device.facts()));
}

std::string why_no_backend(const gpu::DeviceFacts& device) {
  if (auto why = why_no_kernels(device, gpu::presence().driver_version); !why.empty()) return why;
  try {
    cuda::require_library();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

Bytes library_scratch(const Setup& setup, int sequences) {
  return setup.device.kind == cluster::DeviceKind::cpu ? cpu_scratch(setup, sequences) : cuda_scratch(setup, sequences);
}

}  // namespace flotilla::compute
