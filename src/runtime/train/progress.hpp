#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

#include "flotilla/comm/event_count.hpp"

namespace flotilla::train {

/// Which instructions of a step are done, between the two threads that run them. Done means done in this pass: the marks of earlier
/// passes do not count, so nothing is cleared.
class Progress {
 public:
  explicit Progress(std::size_t issued_instructions)
      : done_{std::make_unique<std::atomic<std::uint32_t>[]>(issued_instructions)}, count_{issued_instructions} {
    for (std::size_t i = 0; i < count_; ++i) done_[i].store(0, std::memory_order_relaxed);
  }

  /// Before a pass, with both threads at rest.
  void begin_pass() { ++pass_; }
  bool done(int issued) const { return done_[static_cast<std::size_t>(issued)].load(std::memory_order_acquire) == pass_; }
  void mark(int issued) { done_[static_cast<std::size_t>(issued)].store(pass_, std::memory_order_release); }

 private:
  std::unique_ptr<std::atomic<std::uint32_t>[]> done_;
  std::size_t count_;
  std::uint32_t pass_ = 0;
};

using comm::EventCount;

}  // namespace flotilla::train
