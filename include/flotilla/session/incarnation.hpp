#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/watch.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "flotilla/session/run_config.hpp"
#include "flotilla/session/start_progress.hpp"
#include "flotilla/signals/signal_thread.hpp"
#include "flotilla/signals/stop_signals.hpp"

namespace flotilla::session {

/// What every rank of a run holds from its start to its end: the run directory's lock (rank 0), the watch, the signals, and what to say
/// when the end comes early.
class Incarnation {
 public:
  /// Collective: opens the run directory, starts the watch. `job`: the batch system's id; "" without one.
  Incarnation(const comm::World&, const RunConfig&, std::string job);
  Incarnation(const Incarnation&) = delete;
  Incarnation& operator=(const Incarnation&) = delete;

  const comm::World& world() const { return world_; }
  const std::filesystem::path& run() const { return run_; }
  int incarnation() const { return incarnation_; }
  /// Rank 0: of what was in the way of a clean start; empty otherwise.
  std::string note() const { return lock_ ? lock_->note() : std::string{}; }
  const std::string& job() const { return job_; }

  /// Local: a signal reached this rank, or some rank asked through the watch. Says why.
  std::optional<std::string> stop_wanted();
  /// Local: since when this rank knows that somebody will be killed soon: its own SIGTERM, SIGINT, SIGHUP or SIGXCPU, else when it heard
  /// of another's. On the clock of flotilla::now().
  std::optional<Seconds> urgent_since();
  /// Passes a signal that reached this rank on to the others. Any thread.
  void relay_signals();
  /// The same for those after which the process will be killed soon.
  void relay_urgent_signals();

  /// Rank 0: throws Error{unavailable} when another incarnation has taken the run directory.
  void require_lock() const;
  void set_step(std::int64_t steps_done) { step_ = steps_done; }
  /// This rank's outcome file. Any thread.
  void write_outcome(ExitCode, const std::string& reason, bool temporary = false) noexcept;
  /// Ends watch and lock in good order; collective.
  void close();
  comm::Watch* watch() { return watch_.get(); }
  StartProgress& start() { return *start_; }
  const StartProgress& start() const { return *start_; }

 private:
  std::optional<signals::StopSignal> urgent_signal() const;

  const comm::World& world_;
  const Seconds deadline_;
  std::optional<journal::RunDirectory> lock_;  ///< rank 0
  std::filesystem::path run_;
  int incarnation_ = 0;
  const std::string job_;
  std::atomic<std::int64_t> step_{0};
  signals::StopSignals signals_;
  signals::SignalThread signal_thread_{signals::StopSignals::usual()};  ///< before the first thread that computes
  std::atomic<bool> relayed_{false}, relayed_urgent_{false};
  std::optional<Seconds> heard_urgent_;
  std::unique_ptr<comm::Watch> watch_;
  std::unique_ptr<StartProgress> start_;
};

}  // namespace flotilla::session
