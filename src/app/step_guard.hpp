#pragma once
#include <mutex>
#include <optional>
#include <thread>

#include "app/allocation.hpp"
#include "app/time_left.hpp"

namespace flotilla::app {

/// Looks every few milliseconds, while a step is on, whether the process will live to its end: a thread, because the one that trains is in
/// the step. On every rank it passes on the signals that are urgent; on the crew's first it decides that the step is given up and tells
/// all.
class StepGuard {
 public:
  /// `ends`: of the job's time. `decides` on one rank alone.
  StepGuard(Allocation&, bool decides, Seconds grace, std::optional<Seconds> ends);

  /// `stops`: the step is to be the last.
  void begin(std::int64_t step, const TimeLeft& known, bool stops);
  void end();
  /// Whether some rank has decided that. Cheap.
  bool given_up(std::int64_t step) const { return allocation_.watch()->given_up() == step; }

 private:
  void look();

  Allocation& allocation_;
  const bool decides_;
  const std::optional<Seconds> ends_;
  std::mutex mutex_;
  std::int64_t step_ = -1;  ///< in hand; -1: none
  bool stops_ = false;
  StepInHand hand_;
  std::jthread thread_;
};

}  // namespace flotilla::app
