#include "finish.hpp"

#include <sched.h>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::fabric {

void finish(comm::Operation& operation, Seconds deadline) {
  constexpr int polls_before_yield = 200;
  const Seconds end = now() + deadline;
  for (int polls = 0; !operation.progress(); ++polls) {
    FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, operation.describe(), ": no answer within ", deadline);
    if (polls > polls_before_yield) sched_yield();
  }
}

}  // namespace flotilla::fabric
