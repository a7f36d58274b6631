#pragma once
#include <vector>

#include "chunks.hpp"

namespace flotilla::program {

/// Instructions of a chunk in issue order within one microbatch, but for its receives, which stand by boundary message.
struct ChunkInstructions {
  std::vector<int> forward, backward, receive_activation, receive_gradient;
};

/// The blocks of these steps, between the opening and the closing instructions of the step; what repeats with the next microbatch is a
/// loop.
std::vector<Block> chunk_loops(const std::vector<ChunkStep>&, const std::vector<ChunkInstructions>& chunks, const std::vector<int>& opening,
                               const std::vector<int>& closing);

}  // namespace flotilla::program
