#pragma once
#include "flotilla/base/units.hpp"

namespace flotilla::topology {

/// The most memory that this process has had resident since its start, or since forget_peak_resident(); 0 where the system does not say.
Bytes peak_resident();
/// Counts the peak from now on. Without effect where the system cannot: then it is that since the start.
void forget_peak_resident();

}  // namespace flotilla::topology
