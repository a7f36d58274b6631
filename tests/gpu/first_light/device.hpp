#pragma once
#include <map>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/gpu/kernel.hpp"

namespace flotilla::first_light {

inline constexpr Seconds limit{60};

/// The first GPU with the kernels of this build.
struct Target {
  gpu::DeviceContext device = gpu::DeviceContext::open(0);
  gpu::Stream stream = device.make_stream();
  gpu::Module module{device, compute::kernel_image(device.facts())};
  std::map<std::string, gpu::Kernel> kernels;

  const gpu::Kernel& kernel(const std::string& name) {
    const auto found = kernels.find(name);
    return found != kernels.end() ? found->second : kernels.emplace(name, module.kernel(name, gpu::all_shared)).first->second;
  }
};
Target& target();

}  // namespace flotilla::first_light
