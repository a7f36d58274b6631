#pragma once
#include <vector>

#include "flotilla/sailor/formulas.hpp"

namespace flotilla::sailor {

/// Calls each(kind, partner, count) for the replicas j of `from` and their partners j modulo D in `to`, runs of equal pairs together.
template <class Each>
void for_each_pair(const std::vector<SailorRun>& from, const std::vector<SailorRun>& to, Each each) {
  std::size_t partner = 0;
  int used = 0;
  for (const SailorRun& run : from)
    for (int left = run.count; left > 0;) {
      const int count = std::min(left, to[partner].count - used);
      each(run.kind, to[partner].kind, count);
      left -= count;
      used += count;
      if (used < to[partner].count) continue;
      partner = (partner + 1) % to.size();
      used = 0;
    }
}

/// Calls each(kind, neighbour, count) for the replicas j and j + 1, runs of equal pairs together; not for the last and the first.
template <class Each>
void for_each_edge(const std::vector<SailorRun>& runs, Each each) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].count > 1) each(runs[i].kind, runs[i].kind, runs[i].count - 1);
    if (i + 1 < runs.size()) each(runs[i].kind, runs[i + 1].kind, 1);
  }
}

}  // namespace flotilla::sailor
