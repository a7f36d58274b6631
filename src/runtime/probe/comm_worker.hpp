#pragma once
#include <exception>
#include <span>
#include <thread>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/event_count.hpp"
#include "flotilla/comm/persistent_operation.hpp"

namespace flotilla::probe {

/// An operation to start, with its size.
struct CommTask {
  comm::PersistentOperation* operation = nullptr;
  Bytes size;
};

/// Runs messages and collectives as the trainer does: a thread of its own starts and polls them, the caller sleeps until it is woken. What
/// waking and polling cost is part of what a message takes.
class CommWorker {
 public:
  explicit CommWorker(Seconds deadline);
  CommWorker(const CommWorker&) = delete;
  CommWorker& operator=(const CommWorker&) = delete;
  ~CommWorker();

  /// Starts all, returns when all have ended. Throws what an operation throws, and Error{communication} naming one that does not end within
  /// the deadline.
  void run(std::span<const CommTask>);

 private:
  void serve();
  void carry();

  Seconds deadline_;
  std::span<const CommTask> comm_tasks_;
  std::atomic<int> asked_{0}, done_{0};
  std::atomic<bool> stop_{false};
  comm::EventCount work_, finished_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace flotilla::probe
