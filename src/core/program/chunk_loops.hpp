#pragma once
#include <vector>

#include "chunks.hpp"

namespace flotilla::program {

/// Sites of a chunk in issue order within one microbatch, but for its receives, which stand by parcel.
struct ChunkSites {
  std::vector<int> forward, backward, receive_activation, receive_gradient;
};

/// The blocks of these steps, between the opening and the closing sites of the step; what repeats with the next microbatch is a loop.
std::vector<Block> chunk_loops(const std::vector<ChunkStep>&, const std::vector<ChunkSites>& chunks, const std::vector<int>& opening,
                               const std::vector<int>& closing);

}  // namespace flotilla::program
