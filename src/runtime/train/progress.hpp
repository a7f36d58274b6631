#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

#include "flotilla/comm/bell.hpp"

namespace flotilla::train {

/// Which instructions of a step are done, between the two threads that run them. Done means done in this pass: the marks of earlier
/// passes do not count, so nothing is cleared.
class Progress {
 public:
  explicit Progress(std::size_t instructions) : done_{std::make_unique<std::atomic<std::uint32_t>[]>(instructions)}, count_{instructions} {
    for (std::size_t i = 0; i < count_; ++i) done_[i].store(0, std::memory_order_relaxed);
  }

  /// Before a pass, with both threads at rest.
  void begin_pass() { ++pass_; }
  bool done(int instruction) const { return done_[static_cast<std::size_t>(instruction)].load(std::memory_order_acquire) == pass_; }
  void mark(int instruction) { done_[static_cast<std::size_t>(instruction)].store(pass_, std::memory_order_release); }

 private:
  std::unique_ptr<std::atomic<std::uint32_t>[]> done_;
  std::size_t count_;
  std::uint32_t pass_ = 0;
};

using comm::Bell;

}  // namespace flotilla::train
