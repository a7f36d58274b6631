#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "flotilla/base/units.hpp"

namespace flotilla {

/// Sleeps so long, or until a stop is asked for: whoever waits for the thread to end need not wait for its sleep.
inline void interruptible_sleep(const std::stop_token& stop, Seconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock{mutex};
  never.wait_for(lock, stop, std::chrono::duration<double>{time.value}, [] { return false; });
}

}  // namespace flotilla
