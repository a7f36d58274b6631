#pragma once
#include <csignal>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::signals {

/// A request to stop that came as a signal.
struct StopSignal {
  int number = 0;
  Seconds when;  ///< on the clock of flotilla::now()
  bool operator==(const StopSignal&) const = default;
};

/// "SIGTERM"; "signal 40" for those without a name here.
std::string signal_name(int number);

/// From now on writing to a pipe that nobody reads fails with EPIPE and does not kill.
void ignore_broken_pipes() noexcept;
/// From now on writing beyond the limit of a file's size (ulimit -f) fails with EFBIG and does not kill.
void ignore_file_size_limits() noexcept;

/// The work was left because a signal asks for it.
class Stopped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// Throws Stopped while a StopSignals lives that has received one. For work whose length others decide; as cheap as a load.
void refuse_if_stopped();

/// While one of these lives, the signals ask for a stop and do not kill: the first is remembered, later ones are counted, so a second
/// SIGTERM cannot end a save half-way. The destructor puts the old handlers back. One at a time per process (a second throws
/// Error{internal}); signals may reach any thread. A SIGHUP that was ignored before (nohup) stays ignored.
class StopSignals {
 public:
  /// What Slurm, cloud sites and people send: SIGTERM (time limit, preemption), SIGUSR1 and SIGUSR2 (--signal), SIGINT (Ctrl-C); the
  /// system, when the terminal is gone (SIGHUP) and when the CPU time is used up (SIGXCPU, ulimit -t).
  static std::vector<int> usual() { return {SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGHUP, SIGXCPU}; }

  /// Throws Error{internal} when one exists already, or for a signal that cannot be handled.
  explicit StopSignals(const std::vector<int>& signals = usual());
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// The first signal since construction or clear(). Lock-free; cheap enough for every step.
  std::optional<StopSignal> received() const noexcept;
  /// The first of that number.
  std::optional<StopSignal> received(int number) const noexcept;
  /// How many have come, the first included.
  int count() const noexcept;
  /// For a process that has nothing left to do but to end: the destructor leaves the signals ignored, so that none that comes late changes
  /// its exit code.
  void ignore_hereafter() noexcept { ignored_ = true; }
  /// Forgets what has come.
  void clear() noexcept;

 private:
  void restore() noexcept;
  struct Old {
    int number;
    struct sigaction action;
  };
  std::vector<Old> old_;
  bool ignored_ = false;
};

}  // namespace flotilla::signals
