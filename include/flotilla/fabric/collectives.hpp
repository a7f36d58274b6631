#pragma once
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/bench/report.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::fabric {

/// Ranks that reduce together: those of a node, the first of each node of a switch, ...
struct CollectiveTest {
  std::string level;  ///< "node", "switch", "partition", "all"
  std::string name;
  std::vector<Rank> members;
};

/// Forms and proves each group as training does (comm::form), then times its all-reduce in fp32 at each size. Tests of one level, whose
/// members must not overlap, run at the same time. The same result on every rank, in the tests' order; a refusal says what the proof found.
/// Sizes that do not fit a level's part of rank 0's `time` are left out, but for two.
/// Collective over the world, every rank giving the same tests; one thread. Throws Error{communication} when a rank is lost.
std::vector<bench::CollectiveReport> measure_collectives(const comm::World&, const std::vector<CollectiveTest>&,
                                                         const std::vector<Bytes>& sizes, Seconds time, Seconds deadline);

}  // namespace flotilla::fabric
