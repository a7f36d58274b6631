#pragma once
#include <exception>
#include <span>
#include <thread>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/bell.hpp"
#include "flotilla/comm/operation.hpp"

namespace flotilla::probe {

/// An operation to start, with its size.
struct Errand {
  comm::Operation* operation = nullptr;
  Bytes size;
};

/// Runs messages and collectives as the trainer does: a thread of its own starts and polls them, the caller sleeps until it is woken. What
/// waking and polling cost is part of what a message takes.
class Courier {
 public:
  explicit Courier(Seconds deadline);
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;
  ~Courier();

  /// Starts all, returns when all have ended. Throws what an operation throws, and Error{communication} naming one that does not end within
  /// the deadline.
  void run(std::span<const Errand>);

 private:
  void serve();
  void carry();

  Seconds deadline_;
  std::span<const Errand> errands_;
  std::atomic<int> asked_{0}, done_{0};
  std::atomic<bool> stop_{false};
  comm::Bell work_, finished_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace flotilla::probe
