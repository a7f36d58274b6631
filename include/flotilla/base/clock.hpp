#pragma once
#include <chrono>

#include "flotilla/base/units.hpp"

namespace flotilla {

/// Steady time in seconds since an arbitrary start. Not for the core wing: `core` knows no clock.
inline Seconds now() { return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()}; }

}  // namespace flotilla
