#pragma once
#include <string>

#include "flotilla/base/precision.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::compute {

/// What a GPU reaches, measured on it. 0: not measured.
struct GpuRates {
  BytesPerSecond to_device, to_host;  ///< copies from and to pinned host memory, one way at a time
  Seconds to_device_latency;          ///< of a copy of 8 bytes
  Seconds to_host_latency;            ///< likewise, from the call until the host knows of it
  BytesPerSecond memory;              ///< of the device: bytes read and written by a copy inside it
  FlopsPerSecond fp32, bf16;          ///< square matrix products by cuBLASLt on random numbers
  std::string library;                ///< "cuBLASLt 13.1.0", or why there were no products
};

/// Sizes grow until a run takes a fortieth of `budget` or reaches 256 MiB (copies) and 8192 rows (products); the best of three runs each.
/// The device is nobody else's meanwhile. A precision that the device or its library cannot multiply in is 0. Throws Error{unavailable}
/// when the device fails. `tf32`: fp32 operands are rounded to TF32.
GpuRates measure_rates(const gpu::DeviceContext&, bool tf32, Seconds budget);

/// "cuBLASLt 13.1.0", which multiplies on this process's GPUs. Throws Error{unavailable} where there is none.
std::string product_library();
/// "cuDNN 9.19.0", or why there is none of 9.6 or later.
std::string attention_library();
/// Whether there is one.
bool has_attention_library();

/// Whether the device has units for TF32, which came with sm_80.
constexpr bool multiplies_tf32(const gpu::DeviceFacts& device) { return device.major >= 8; }

/// What its units for products of 16 bits are made for: bf16 since sm_80, fp16 since sm_70; before there were none.
constexpr Precision made_for(const gpu::DeviceFacts& device) {
  if (device.major >= 8) return Precision::bf16;
  return device.major == 7 ? Precision::fp16 : Precision::fp32;
}

}  // namespace flotilla::compute
