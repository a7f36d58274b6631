#pragma once
#include "flotilla/base/units.hpp"

namespace flotilla::topology {

/// How long threads of this process have been ready to run while their processors did something else (other programs, a quota), since they
/// began, all living threads together. 0 where the kernel does not say (schedstat).
Seconds run_delay();

}  // namespace flotilla::topology
