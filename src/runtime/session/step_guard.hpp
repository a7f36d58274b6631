#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "time_left.hpp"

namespace flotilla::session {

/// Looks every few milliseconds, while a step is on, whether the process will live to its end: a thread, because the one that trains is in
/// the step. On every rank it passes on the signals that are urgent; on the active ranks' first it decides that the step is given up and
/// tells all.
class StepGuard {
 public:
  /// What it learns from and whom it tells. Called on its thread.
  struct Surroundings {
    std::function<void()> relay_urgent_signals;
    std::function<std::optional<Seconds>()> urgent_since;  ///< Incarnation::urgent_since()
    std::function<bool()> stop_wanted;
    std::function<void(std::int64_t step)> give_up;
  };
  /// `ends`: of the job's time. `decides` on one rank alone.
  StepGuard(Surroundings, bool decides, Seconds grace, std::optional<Seconds> ends);

  /// `stops`: the step is to be the last.
  void begin(std::int64_t step, const TimeLeft& known, bool stops);
  void end();

 private:
  void look();

  const Surroundings around_;
  const bool decides_;
  const std::optional<Seconds> ends_;
  std::mutex mutex_;
  std::int64_t step_ = -1;  ///< in hand; -1: none
  bool stops_ = false;
  StepInHand hand_;
  std::jthread thread_;
};

}  // namespace flotilla::session
