#pragma once
#include <algorithm>
#include <optional>

#include "flotilla/base/units.hpp"

/// What follows a save that failed because the run directory is full or away (ErrorKind::temporary). Times are on the clock of
/// flotilla::now().
namespace flotilla::session {

/// `first` after one failure, twice as long after each further one, `most` at last.
constexpr Seconds growing_pause(int failures, Seconds first, Seconds most) {
  Seconds pause = first;
  for (int i = 1; i < failures && pause < most; ++i) pause = 2 * pause;
  return std::min(pause, most);
}

/// When to try again while the run trains on. One rank's clock decides for all; the failures are the same everywhere.
class SaveRetry {
 public:
  bool failing() const { return failures_ > 0; }
  int failures() const { return failures_; }
  /// Whether the next try is due. False while saves work.
  bool due(Seconds time) const { return failing() && time >= next_; }
  void failed(Seconds time) { next_ = time + growing_pause(++failures_, Seconds{5}, Seconds{120}); }
  void worked() { failures_ = 0; }

 private:
  int failures_ = 0;
  Seconds next_;
};

/// How long the end of a run, which has nothing left to do but to save, waits for room.
struct RoomWait {
  Seconds began;
  Seconds patience;               ///< where nobody has said when the process is killed: the devices should not idle for ever
  std::optional<Seconds> killed;  ///< when the process will be killed; empty: nobody has said
  Seconds save;                   ///< the longest measured
  Seconds reserve{2};             ///< to say how it ended
  int told = 0;                   ///< lines so far

  Seconds last() const { return killed ? *killed - save - reserve : began + patience; }
  /// After so many failures in a row: the pause before the next try; nothing where no try would end in time.
  std::optional<Seconds> pause(Seconds time, int failures) const {
    if (time >= last()) return std::nullopt;
    return std::min(growing_pause(failures, Seconds{1}, Seconds{15}), last() - time);
  }
  /// Whether it is time for another line: the first at once, the next after 10 s, each further one twice as far from the beginning.
  bool line_is_due(Seconds time) {
    if (told > 0 && time < began + growing_pause(told, Seconds{10}, Seconds{1e9})) return false;
    ++told;
    return true;
  }
};

}  // namespace flotilla::session
