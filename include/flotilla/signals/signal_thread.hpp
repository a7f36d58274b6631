#pragma once
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

namespace flotilla::signals {

/// A thread whose only work is to be interrupted. While one of these lives, the signals reach it (or threads that were there before) and
/// never the thread that made it nor threads that one starts later: code generated at run time, such as oneDNN's, seems to keep values
/// below the stack's red zone, where the frame of a signal overwrites them (inferred: docs/design/execution.md). Make it before the first
/// thread that computes.
class SignalThread {
 public:
  explicit SignalThread(const std::vector<int>& signals);
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;
  /// Puts the maker's mask back; on the thread that made it.
  ~SignalThread();

 private:
  std::atomic<bool> over_{false};
  sigset_t before_{};
  std::thread thread_;
};

}  // namespace flotilla::signals
