#pragma once
#include <optional>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/compute/backend.hpp"

namespace flotilla::session {

/// What this rank computes on. Ranks of a host take its GPUs in turn, each of those that it sees (CUDA_VISIBLE_DEVICES) the one that the
/// fewest others have. `kind` gpu: all ranks are on GPUs, which they share where there are too few; nothing: a rank for which none is left
/// computes on CPUs. Collective over the world. Throws comm::AgreedError{unavailable} where a rank must be on a GPU and can be on none.
compute::Device choose_device(const comm::World&, std::optional<compute::DeviceKind> kind, Seconds deadline);

}  // namespace flotilla::session
