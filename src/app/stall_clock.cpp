#include "app/stall_clock.hpp"

#include <chrono>

#include "flotilla/base/clock.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds nap{0.010};
constexpr Seconds usual_lateness{0.005};

}  // namespace

StallClock::StallClock()
    : thread_{[this](std::stop_token stop) {
        for (Seconds begin = now(); !stop.stop_requested();) {
          std::this_thread::sleep_for(std::chrono::duration<double>{nap.value});
          const Seconds end = now(), late = end - begin - nap;
          if (late > usual_lateness) seconds_.store(seconds_.load(std::memory_order_relaxed) + late.value, std::memory_order_relaxed);
          begin = end;
        }
      }} {}

}  // namespace flotilla::app
