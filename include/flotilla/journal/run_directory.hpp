#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "flotilla/base/units.hpp"

/// The run directory: lock, incarnations, metrics, outcome. Every file and key is described in docs/formats/run-directory.md.
namespace flotilla::journal {

struct LockOptions {
  std::string job = {};      ///< the batch system's job id, "" without one
  Seconds stale_after{120};  ///< a holder whose heartbeat is older than this is taken for dead, wherever it is
  Seconds heartbeat{10};     ///< a thread of ours refreshes the heartbeat this often; 0: only `touch()` does
  /// The same for a holder with our own job id: that start is over for the script or Slurm, only its host is not ours and cannot be asked.
  /// A process that slept through this many heartbeats asks `require_mine()` before it writes what counts.
  Seconds own_job_stale_after{45};
  /// How long to wait for a holder that may be dying before giving up. A holder with our own job id is waited for until it is gone or
  /// stale, even with 0 here.
  Seconds wait{0};
};

/// Who holds or held a run directory: what its incarnation file says.
struct DirectoryHolder {
  int incarnation = 0;
  std::string host = {};
  int pid = 0;
  std::string job = {};
  double started = 0;        ///< seconds since 1970
  double heartbeat_age = 0;  ///< seconds, by this host's clock
  bool released = false;     ///< it ended in good order
};

/// A run directory that this process holds: exactly one does, over all hosts that share the file system. Each start is an incarnation
/// with a number one higher than the last. Rank 0 opens; the others get path and number from it. Move-only; thread-safe.
class RunDirectory {
 public:
  /// Makes the folder when it is not there, and takes the lock: at once when nobody holds it, when the holder ended, is dead on this host,
  /// or its heartbeat is stale. Throws Error{unavailable} naming the holder (host, pid, since when) and what to do; Error{bad_input}
  /// when `path` is not a folder or its folders are links; Error{temporary} when it cannot be seen or written now.
  static RunDirectory open(const std::filesystem::path& path, const LockOptions& = {});

  RunDirectory(RunDirectory&&) noexcept;
  RunDirectory& operator=(RunDirectory&&) noexcept;
  /// Releases.
  ~RunDirectory();

  const std::filesystem::path& path() const;
  int incarnation() const;  ///< from 1
  /// What was found in the way of a clean start, for the log: "incarnation 3 (n2, pid 41, ...) is dead; taken over". Empty otherwise.
  const std::string& note() const;

  /// Refreshes the heartbeat. False when the lock is lost; then this process must write nothing more into the directory.
  bool touch() noexcept;
  /// False once another incarnation has taken over, our own incarnation file is gone, or neither can be seen. One folder listing.
  bool still_mine() const noexcept;
  /// Ask before every write that counts. Throws Error{unavailable} naming who took over, and Error{temporary} when that cannot be seen.
  void require_mine() const;

  /// Clean end: the next one may start at once. Further calls do nothing. Keep it until the last write is done.
  void release() noexcept;

 private:
  struct State;
  explicit RunDirectory(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

/// The newest incarnation of a run directory, held or not; nothing when there never was one. For reports; takes no lock.
std::optional<DirectoryHolder> newest_holder(const std::filesystem::path& run);

/// When a process of this node began, seconds since 1970; 0 where the kernel does not say.
double process_began(int pid);
double this_process_began();

/// The folder of a checkpoint: RUN/step-N.
std::filesystem::path step_folder(const std::filesystem::path& run, std::int64_t step);
std::filesystem::path metrics_file(const std::filesystem::path& run);  ///< RUN/metrics.jsonl
std::filesystem::path outcome_file(const std::filesystem::path& run);  ///< RUN/outcome.json

}  // namespace flotilla::journal
