#pragma once
#include <thread>

#include "flotilla/base/clock.hpp"

namespace flotilla {

/// How a loop polls that must answer at once, with a deadline. A clock costs as much as a poll of shared memory, so it is read at every
/// 64th poll only; a deadline may be noticed that much later. After a while without progress it yields: ranks may be more than cores.
class Spin {
 public:
  explicit Spin(Seconds deadline) : deadline_{deadline} {}
  /// After each poll that has not ended the wait. True once the deadline has passed.
  bool expired(bool progressed) {
    idle_ = progressed ? 0 : idle_ + 1;
    if (idle_ > polls_before_yield) std::this_thread::yield();
    if (++polls_ % polls_a_reading != 0) return false;
    if (polls_ == polls_a_reading) end_ = now() + deadline_;
    return now() > end_;
  }

 private:
  static constexpr int polls_before_yield = 200;
  static constexpr long polls_a_reading = 64;
  Seconds deadline_, end_{};
  long polls_ = 0;
  int idle_ = 0;
};

}  // namespace flotilla
