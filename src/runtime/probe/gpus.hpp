#pragma once
#include <span>
#include <string>
#include <vector>

#include "flotilla/comm/world.hpp"
#include "flotilla/compute/device_rates.hpp"
#include "flotilla/probe/probe.hpp"

namespace flotilla::probe {

/// One GPU that a rank measured.
struct MeasuredGpu {
  std::string name;    ///< NVIDIA's
  std::string driver;  ///< "CUDA 13.0 (580.65.06)"
  Bytes memory;
  compute::DeviceRates rates;
};
/// One line, and back. Throws Error{communication} where it is none.
std::string to_text(const MeasuredGpu&);
MeasuredGpu gpu_from_text(const std::string&);

/// A type for each name, called as in the catalogue where that knows it: medians of the rates, the least memory.
std::vector<cluster::DeviceType> types_of(const std::vector<MeasuredGpu>&);

/// Every GPU that a rank is assigned (gpu::assign_devices) is measured, all at once; types in order of their names. Collective; nothing more
/// than one exchange where no rank sees a GPU. A GPU that several ranks share is measured by the first.
std::vector<cluster::DeviceType> measure_gpus(const comm::World&, const ProbeRequest&, Seconds budget);

}  // namespace flotilla::probe
