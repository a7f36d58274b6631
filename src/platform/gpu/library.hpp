#pragma once
#include <string>

#include "driver_api.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::gpu {

/// libcuda, opened once for the life of the process.
struct Driver {
  driver::DriverFunctions table;
  std::string why_none;  ///< empty when the table is whole
};
const Driver& open_driver();

/// The table; throws Error{unavailable} where there is no driver.
const driver::DriverFunctions& api();

/// NVML, initialised, or null.
const driver::nvml::NvmlFunctions* nvml_api();

/// Where a call was made, for its error.
struct CallSite {
  const char* call;
  int device;  ///< -1: none in particular
};

/// Throws Error{unavailable}: call, device, the driver's name and words for the result, and what to do about it.
[[noreturn]] void fail(driver::Result, CallSite);

inline void check(driver::Result result, CallSite site) {
  if (result != driver::success) fail(result, site);
}

/// Calls an entry point of the driver for a device; the error names both.
#define CUDA_TRY(device, function, ...) ::flotilla::gpu::check(::flotilla::gpu::api().function(__VA_ARGS__), {#function, (device)})

}  // namespace flotilla::gpu
