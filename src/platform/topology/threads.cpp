#include "flotilla/topology/threads.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "flotilla/base/error.hpp"

namespace flotilla::topology {
namespace {

// Sums of thirds and the like must not lose a whole thread to rounding.
int whole_threads(double cpus) { return static_cast<int>(std::floor(cpus + 1e-6)); }

}  // namespace

int threads_per_rank(const std::vector<CpuShare>& ranks_of_node, int local_rank) {
  FLOTILLA_ASSERT(local_rank >= 0 && static_cast<std::size_t>(local_rank) < ranks_of_node.size(), local_rank);
  std::map<int, int> users;
  for (const auto& rank : ranks_of_node)
    for (int cpu : rank.usable) ++users[cpu];
  const auto& mine = ranks_of_node[static_cast<std::size_t>(local_rank)];
  double cpus = 0;
  for (int cpu : mine.usable) cpus += 1.0 / users[cpu];
  if (mine.cpu_limit > 0) cpus = std::min(cpus, mine.cpu_limit / static_cast<double>(ranks_of_node.size()));
  return std::max(1, whole_threads(cpus));
}

BoundThreads bound_threads(const std::vector<CpuShare>& ranks_of_node, int granted) {
  std::set<int> used;
  for (const auto& rank : ranks_of_node) used.insert(rank.usable.begin(), rank.usable.end());
  return {static_cast<int>(used.size()), effective_cpus(granted, ranks_of_node.front().cpu_limit)};
}

int effective_cpus(int usable, double cpu_limit) {
  const double cpus = cpu_limit > 0 ? std::min<double>(usable, cpu_limit) : usable;
  return std::max(1, whole_threads(cpus));
}

}  // namespace flotilla::topology
