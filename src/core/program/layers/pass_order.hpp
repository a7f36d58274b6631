#pragma once
#include <vector>

#include "flotilla/program/program.hpp"
#include "flotilla/schedule/passes.hpp"

namespace flotilla::program {

/// The instructions of a pass. With blocking transfers the messages stand on the compute queue, and a stage takes the next activation
/// before it sends the last gradient, as its neighbour does the opposite: else two stages would send to each other and wait.
struct PassInstructions {
  std::vector<int> receive, work, send;
};
struct ChunkPasses {
  PassInstructions forward, backward;
};

/// Loops over the passes of 1F1B, in a few blocks whatever the number of microbatches; of several chunks, the passes as they are listed.
std::vector<Block> pass_loops(const schedule::PassOrder&, int microbatches, const std::vector<ChunkPasses>& chunks);

}  // namespace flotilla::program
