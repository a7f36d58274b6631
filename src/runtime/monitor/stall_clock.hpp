#pragma once
#include <atomic>
#include <thread>

#include "flotilla/base/units.hpp"

namespace flotilla::monitor {

/// How long this process could not run although it wanted to: stopped, over its quota, or its processors taken by others. A thread that
/// sleeps 10 ms at a time and counts what it wakes late by, where that is more than a machine at work does to everybody. What a rank
/// loses while it waits for a message shows in none of its instructions; it shows here.
class StallClock {
 public:
  StallClock();
  /// Since the beginning. Any thread.
  Seconds stalled() const { return {seconds_.load(std::memory_order_relaxed)}; }

 private:
  std::atomic<double> seconds_{0};
  std::jthread thread_;
};

}  // namespace flotilla::monitor
