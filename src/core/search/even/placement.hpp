#pragma once
#include <vector>

#include "problem.hpp"

namespace flotilla::search::even {

/// Where the replicas sit: (stage * data + replica) -> devices of its tensor-parallel group, all of one host and type.
struct Placement {
  int data = 1, pipeline = 1, tensor = 1;
  std::vector<std::vector<Rank>> groups;
  std::vector<int> sequences;  ///< of the global batch, by replica
  double tail = 0;             ///< seconds after the last backward pass, at least: the token embedding's gradient sum and the optimizer

  const std::vector<Rank>& devices(int stage, int replica) const { return groups[static_cast<std::size_t>(stage * data + replica)]; }
  int device_count() const { return data * pipeline * tensor; }
};

/// Every placement that is tried for these degrees: ranks 0 ... data*pipeline*tensor-1 in order of zone and host, dealt stage by stage or
/// replica by replica, from either end where their types differ; equal shares of the batch, and where types differ also shares in
/// proportion to speed. Empty when the ranks do not make up groups inside hosts.
std::vector<Placement> placements(const Problem&, int data, int pipeline, int tensor);

}  // namespace flotilla::search::even
