#pragma once
#include <vector>

#include "flotilla/plan/plan.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::program {

/// One microbatch through one of a device's stages ("chunk"), forward or backward.
struct Pass {
  int chunk = 0;
  int microbatch = 0;
  bool backward = false;
};

/// The order in which a device of pipeline position `position` of `depth` runs its passes.
/// 1F1B: Narayanan et al. 2019; interleaved: Narayanan et al. 2021, section 2.2 (https://arxiv.org/abs/2104.04473).
std::vector<Pass> pass_order(plan::ScheduleKind, int depth, int position, int chunks, int microbatches);

/// The sites of a pass. With blocking transfers the messages stand on the compute queue, and a stage takes the next activation before it
/// sends the last gradient, as its neighbour does the opposite: else two stages would send to each other and wait.
struct PassSites {
  std::vector<int> receive, work, send;
};
struct ChunkSites {
  PassSites forward, backward;
};

/// Loops over the passes. 1F1B in a few blocks, whatever the number of microbatches; interleaved passes are listed.
std::vector<Block> pass_loops(plan::ScheduleKind, int depth, int position, int microbatches, const std::vector<ChunkSites>& chunks);

}  // namespace flotilla::program
