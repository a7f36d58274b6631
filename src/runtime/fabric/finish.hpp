#pragma once
#include "flotilla/base/units.hpp"
#include "flotilla/comm/persistent_operation.hpp"

namespace flotilla::fabric {

/// Waits for a started operation of the training's messages. It polls, and gives the core up once nothing has come for a while: ranks may
/// be more than cores. Throws Error{communication} after `deadline`.
void finish(comm::PersistentOperation&, Seconds deadline);

}  // namespace flotilla::fabric
