#pragma once
#include <functional>
#include <memory>
#include <string>

#include "flotilla/mpi/communicator.hpp"

namespace flotilla::mpi {

class SessionFolder;

/// MPI from start to end, once per process. Declare it outside the `try` whose `catch` reports errors, so that it outlives the work.
class Session {
 public:
  /// Starts MPI with MPI_THREAD_MULTIPLE (or adopts an MPI that was started so, which it will then not finalize) and makes errors return.
  /// Without a launcher this is one rank. Throws Error{unavailable} when the thread level is not granted, or when a launcher started
  /// several copies of which each believes to be alone, with the launch line to use. `end_deadline` is how long its end waits for the other
  /// ranks: longer than one of them may be busy with files that wait for a disk. Where the others do not start within `start_deadline`,
  /// this process ends with ExitCode::lost_peer: ranks of a large job do not start at once.
  explicit Session(Seconds end_deadline = Seconds{120}, Seconds start_deadline = Seconds{120});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Finalizes, unless an exception is passing through: then the peers are not finalizing, and waiting for them would hang. Collective;
  /// where a peer does not come in time, this process ends with ExitCode::lost_peer.
  ~Session();

  /// All ranks of the job; a duplicate, so foreign traffic on MPI_COMM_WORLD does not meet ours.
  const Communicator& world() const noexcept { return world_; }

 private:
  std::unique_ptr<const SessionFolder> folder_;
  bool owns_;       // we initialized, so we finalize
  int exceptions_;  // in flight at construction
  Seconds end_deadline_;
  Communicator world_;
};

/// Value of an environment variable, or nullptr: std::getenv, or a test's table.
using Environment = std::function<const char*(const char*)>;

/// How many processes the launcher says it started: Open MPI's, PMI's or Slurm's variable, the innermost launcher first; 1 without one.
int launched_processes(const Environment&);
/// Why a world of `size` ranks is not what the launcher meant, with the launch line to use; empty when it is.
std::string why_not_one_world(int size, const Environment&);

/// "Open MPI v4.1.4, ...": one line, what is linked now.
std::string library_version();
/// Name of this process's node as MPI gives it.
std::string host_name();
/// True between the start of MPI and its end.
bool running() noexcept;
/// Ends every rank of the job with `exit_code`, which the launcher passes on. Without MPI it ends this process.
[[noreturn]] void abort(int exit_code) noexcept;

}  // namespace flotilla::mpi
