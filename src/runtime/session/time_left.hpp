#pragma once
#include <algorithm>
#include <optional>

#include "flotilla/base/units.hpp"

namespace flotilla::session {

/// When to begin the last step of a job that has a time limit. Times are on the clock of flotilla::now().
struct TimeLeft {
  std::optional<Seconds> ends;
  Seconds slack;  ///< for what is not measured: Slurm's own imprecision, a file system that is slow today
  Seconds step;   ///< the longest of the recent ones
  Seconds save;   ///< the longest measured, of earlier incarnations too; 0: none yet

  /// Whether the step that begins now must be the last: another one and the save after it might not end in time.
  bool last_step(Seconds time) const { return ends && time + 2 * step + save + slack > *ends; }
  /// While a save is under way that began at `begun`: the one for the end comes after what is left of it.
  TimeLeft after_save(Seconds time, Seconds begun) const {
    auto left = *this;
    left.save += std::max(Seconds{0}, begun + save - time);
    return left;
  }
};

/// When the process is killed: the earlier of both, where somebody has said.
inline std::optional<Seconds> time_of_kill(std::optional<Seconds> after_signal, std::optional<Seconds> ends) {
  if (after_signal && ends) return std::min(*after_signal, *ends);
  return after_signal ? after_signal : ends;
}

/// When to give up the step in hand, because the process would be killed before it is over and saved. Times as above.
struct StepInHand {
  Seconds began;
  Seconds step;                 ///< the longest of the recent ones; 0: none yet
  Seconds save;                 ///< the longest measured; 0: none yet
  Seconds grace;                ///< between a signal that is urgent and the end
  std::optional<Seconds> told;  ///< when that signal came
  std::optional<Seconds> ends;  ///< of the job's time, where a stop is wanted

  std::optional<Seconds> killed() const { return time_of_kill(told ? std::optional{*told + grace} : std::nullopt, ends); }
  /// For what is not measured: how long it takes to tell everybody and to come to the step's end without computing.
  Seconds reserve() const { return std::max(Seconds{0.5}, 0.1 * grace); }
  /// A step that has lasted longer than any before it may end at any moment; it is let go on until the last one at which a save fits.
  bool too_long(Seconds time) const {
    const auto end = killed();
    return end && std::max(time, began + step) + save + reserve() > *end;
  }
};

}  // namespace flotilla::session
