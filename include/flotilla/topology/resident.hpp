#pragma once
#include "flotilla/base/units.hpp"

namespace flotilla::topology {

/// The most memory that this process has had resident since its start; 0 where the system does not say.
Bytes peak_resident();

}  // namespace flotilla::topology
