#pragma once
#include <atomic>
#include <cstdint>

namespace flotilla::comm {

/// A bell that one thread rings and another sleeps on: listen, look whether what one waits for has happened, then wait.
class EventCount {
 public:
  std::uint32_t listen() const { return rings_.load(std::memory_order_acquire); }
  void ring() {
    rings_.fetch_add(1, std::memory_order_acq_rel);
    rings_.notify_all();
  }
  void wait(std::uint32_t heard) const { rings_.wait(heard, std::memory_order_acquire); }

 private:
  std::atomic<std::uint32_t> rings_{0};
};

}  // namespace flotilla::comm
