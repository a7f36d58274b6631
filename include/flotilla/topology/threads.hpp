#pragma once
#include <vector>

namespace flotilla::topology {

/// What one rank of a node may use.
struct CpuShare {
  std::vector<int> usable;  ///< hardware threads, as NodeTopology::usable
  double cpu_limit = 0;     ///< ControlGroupLimits::cpus; shared by the node's ranks; 0: none
  bool operator==(const CpuShare&) const = default;
};

/// Compute threads for rank `local_rank` of a node: every hardware thread counts as one divided by the number of ranks that may run on
/// it, so ranks bound to disjoint sets get their own set and unbound ranks get equal parts; not more than the CPU quota divided by
/// the ranks; at least 1. Pure.
int threads_per_rank(const std::vector<CpuShare>& ranks_of_node, int local_rank);

/// Of the hardware threads that a node's ranks were granted, those that they may run on: fewer where a launcher binds them to cores.
struct BoundThreads {
  int used = 0, granted = 0;  ///< under the CPU quota, which is the same for all ranks
  bool some_idle() const { return used < granted; }
};
BoundThreads bound_threads(const std::vector<CpuShare>& ranks_of_node, int granted);
/// What a user does about it.
inline constexpr const char* unbind = "mpirun --bind-to none ..., or srun --cpus-per-task=CPUS --cpu-bind=none ...";

/// CPUs' worth of time behind `usable` hardware threads under a quota (0: none): what one process alone on the node may use. At least 1.
int effective_cpus(int usable, double cpu_limit);

}  // namespace flotilla::topology
