#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "flotilla/gpu/driver.hpp"

/// The CUDA kernels that this program brings along, as machine code.
namespace flotilla::compute {

/// The image for a device; it stays where it is. A file that the environment names (FLOTILLA_GPU_KERNELS: a cubin or fatbin) goes before
/// the program's own. Throws Error{unavailable} where there is none for the device, with why_no_kernels.
std::span<const std::byte> kernel_image(const gpu::DeviceFacts&);

/// Why no kernel can run on the device: a build without nvcc, or one for other architectures, or a driver older than the kernels' toolkit.
/// Empty where kernels can. `driver_version` as in gpu::Presence. One line.
std::string why_no_kernels(const gpu::DeviceFacts&, int driver_version);

/// The same of devices that are elsewhere, whose driver nobody asked.
std::string why_no_kernels(int major, int minor);

/// "CUDA 13.0: sm_75, sm_80, compute_120", "none: ..." or the environment's file.
std::string kernels_description();

}  // namespace flotilla::compute
