#pragma once
#include <optional>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::session {

/// What this rank computes on. Ranks of a host share out its GPUs (probe::choose_gpu). `kind` gpu: all ranks are on GPUs, of which several
/// may have the same; nothing: a rank for which none is left computes on CPUs. `how`: the same for every
/// device, but that TF32 is for those GPUs that have it.
/// Collective over the world. Throws comm::AgreedError{unavailable} where a rank must be on a GPU and can be on none.
compute::ComputeDevice choose_device(const comm::World&, std::optional<cluster::DeviceKind> kind, const compute::ComputeDevice& how,
                                     Seconds deadline);
/// What the devices of all ranks are made for: bf16 or fp16 where each is a GPU with units for it, else fp32. `device`: this rank's.
/// Collective over the world.
Precision precision_of_devices(const comm::World&, const compute::ComputeDevice& device, Seconds deadline);
/// How a run computes on any device.
compute::ComputeDevice how_to_compute(const RunConfig&);

}  // namespace flotilla::session
