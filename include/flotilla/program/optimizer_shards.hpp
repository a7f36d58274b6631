#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/program.hpp"

/// What a rank keeps where optimizers are sharded (Part::shares), element by element.
namespace flotilla::program {

/// Elements of one tensor that stand together both among those summed and in the share's buffers.
struct ShardPiece {
  int part = -1, shard = -1, slot = -1, tensor = -1;
  std::int64_t summed = 0;  ///< where they begin among those summed: in the part, or in what is packed of it
  std::int64_t kept = 0;    ///< and in the share's buffers
  std::int64_t count = 0;
  bool owned = false;  ///< they count in the clipping norm and are this rank's to write; each element is so in one place
};
/// Of one rank, part by part, ascending. Empty where nothing is sharded.
std::vector<ShardPiece> shard_pieces(const Program& program, Rank rank);

/// Where the piece's elements lie in the whole tensor; local offsets count from the piece's begin.
std::vector<plan::Box> boxes_of(const Program& program, Rank rank, const ShardPiece& piece);

/// Copies among those summed: from `summed` on, `count` elements, at `kept` of the share.
struct ShardRange {
  std::int64_t summed = 0, kept = 0, count = 0;
};
/// A rank's share of a part, gaps between tensors included.
std::vector<ShardRange> shard_ranges(const Program& program, Rank rank, const OptimizerShard& share);

}  // namespace flotilla::program
