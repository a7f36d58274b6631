#include "stall_clock.hpp"

#include "flotilla/base/clock.hpp"
#include "flotilla/base/interruptible_sleep.hpp"

namespace flotilla::monitor {
namespace {

constexpr Seconds length{0.010};  // of one sleep
constexpr Seconds usual_lateness{0.005};

}  // namespace

StallClock::StallClock()
    : thread_{[this](std::stop_token stop) {
        for (Seconds begin = now(); !stop.stop_requested();) {
          interruptible_sleep(stop, length);
          const Seconds end = now(), late = end - begin - length;
          if (late > usual_lateness) seconds_.store(seconds_.load(std::memory_order_relaxed) + late.value, std::memory_order_relaxed);
          begin = end;
        }
      }} {}

}  // namespace flotilla::monitor
