#pragma once
// Private: a deadline on a call that has none.
#include <functional>
#include <thread>

#include "flotilla/base/interruptible_sleep.hpp"

namespace flotilla::mpi {

/// Calls `late` on a thread of its own if it still lives after `deadline`. The call that it guards may never return, so `late` ends the
/// process.
class CallDeadline {
 public:
  CallDeadline(Seconds deadline, std::function<void()> late)
      : thread_{[deadline, late = std::move(late)](const std::stop_token& stop) {
          interruptible_sleep(stop, deadline);
          if (!stop.stop_requested()) late();
        }} {}

 private:
  std::jthread thread_;
};

}  // namespace flotilla::mpi
