#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/migration.hpp"

/// Private: where training state lies, as rectangles of each tensor.
namespace flotilla::program {

/// Rows and columns of a tensor that is seen as a table: a row is what lies behind the dimension that its shards cut (all of it where none
/// does). Element (r, c) of the rectangle is at offset + r * stride + c on the rank.
struct Rectangle {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
  std::int64_t offset = 0, stride = 0;
  std::int64_t elements() const { return rows * columns; }
};

/// What a rank has of a tensor.
struct RankHolding {
  Rank rank;
  int piece = -1;       ///< shard_pieces(), or -1: its shard
  bool packed = false;  ///< a piece whose parameters stand apart from the shard's in fp32, too
  std::vector<Rectangle> rectangles = {};
};

/// A rank's whole shard.
RankHolding whole_shard(const model::Tensor&, Rank, int tensor_parallel, int tensor_index);

/// By tensor the pieces of all ranks under a plan; empty where nothing is sharded. The ranks are the plan's. Pieces of one rank may
/// meet: a tensor that no degree cuts is summed in all of a rank's groups.
std::vector<std::vector<RankHolding>> pieces_of(const plan::Plan&, const RankLocations&);

/// Where a plan keeps a tensor's numbers: in the ranks' shards, or in pieces of them where the optimizer is sharded. The weights in half
/// precision are in the shards always.
struct Keeping {
  bool shared = false;
  Precision precision = Precision::fp32;
  bool trained = true;  ///< else there are no moments
  bool parameters_in_pieces() const { return shared && precision != Precision::fp32; }
  bool moments_in_pieces() const { return shared; }
  /// Parameters and moments stand in the same places.
  bool together() const { return parameters_in_pieces() == moments_in_pieces(); }
};

/// Calls each(part as it lies in `missing`, as it lies in `has`) for what both have. Returns what is missing still.
using TakePart = std::function<void(const Rectangle& here, const Rectangle& there)>;
std::vector<Rectangle> without(std::vector<Rectangle> missing, const RankHolding& has, const TakePart& each = {});

/// Of one rank's pieces of a tensor: the same without what lies in an earlier one of them. Calls each(later piece, earlier piece, part as
/// it lies in the later, in the earlier) for what does.
using TwicePart = std::function<void(const RankHolding& later, const RankHolding& earlier, const Rectangle& here, const Rectangle& there)>;
std::vector<RankHolding> each_once(const std::vector<const RankHolding*>& pieces, const TwicePart& each = {});

std::int64_t elements_of(const std::vector<Rectangle>&);
/// Elements that are in both. The rectangles of `held` are apart from each other.
std::int64_t common_elements(const std::vector<RankHolding>& wanted, const std::vector<RankHolding>& held);

}  // namespace flotilla::program
