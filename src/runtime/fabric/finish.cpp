#include "finish.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/base/spin.hpp"

namespace flotilla::fabric {

void finish(comm::PersistentOperation& operation, Seconds deadline) {
  constexpr bool progressed = false;  // an operation tells its end only
  for (Spin spin{deadline}; !operation.progress();)
    FLOTILLA_REQUIRE(!spin.expired(progressed), ErrorKind::communication, operation.describe(), ": no answer within ", deadline);
}

}  // namespace flotilla::fabric
