#pragma once
#include <optional>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/compute/backend.hpp"

namespace flotilla::session {

/// What this rank computes on. Ranks of a host share out its GPUs (probe::choose_gpu). `kind` gpu: all ranks are on GPUs, of which several
/// may have the same; nothing: a rank for which none is left computes on CPUs. `tf32`: those GPUs that can multiply fp32 in TF32.
/// Collective over the world. Throws comm::AgreedError{unavailable} where a rank must be on a GPU and can be on none.
compute::Device choose_device(const comm::World&, std::optional<compute::DeviceKind> kind, bool tf32, Seconds deadline);

}  // namespace flotilla::session
