#pragma once
#include <functional>
#include <optional>
#include <string>

#include "flotilla/bench/report.hpp"
#include "flotilla/slurm/allocation.hpp"

namespace flotilla::app {

/// What the launcher's environment says of this process, before MPI is started or without it.
struct BenchLaunch {
  int rank = 0, local_rank = 0;
  std::string id;         ///< the same on all processes of one start, and on no others; "" without a launcher
  std::string host;       ///< as Slurm calls this node; "" without Slurm
  std::string partition;  ///< "": not known
  bench::Expected expected;
};

/// Value of an environment variable, or nullptr.
using LaunchVariables = std::function<const char*(const char*)>;

/// How long the launcher takes to end once a process has ended with another exit code than 0: Open MPI's mpirun looks twice for processes
/// to kill.
Seconds end_of_launcher(const LaunchVariables&);

/// Of mpirun if that started the process, else of srun, else a process by itself. Throws Error{bad_input} naming a variable that is no
/// number.
BenchLaunch bench_launch(const LaunchVariables&, const std::optional<slurm::SlurmAllocation>&);

}  // namespace flotilla::app
