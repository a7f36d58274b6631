#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/migration.hpp"

/// Private: where training state lies where optimizers are shared out, as rectangles of each tensor.
namespace flotilla::program {

/// Rows and columns of a tensor that is seen as a table: a row is what lies behind the dimension that its shards cut (all of it where none
/// does). Element (r, c) of the rectangle is at offset + r * stride + c on the rank.
struct Rectangle {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
  std::int64_t offset = 0, stride = 0;
};

/// What a rank has of a tensor.
struct Holding {
  Rank rank;
  int piece = -1;     ///< share_pieces(), or -1: its shard
  bool owned = true;  ///< of all that hold the same elements this one is asked
  std::vector<Rectangle> rectangles = {};
};

/// A rank's whole shard.
Holding whole_shard(const model::Tensor&, Rank, int tensor_parallel, int tensor_index);

/// By tensor the pieces of all ranks under a plan; empty where nothing is shared out. The ranks are the plan's.
std::vector<std::vector<Holding>> pieces_of(const plan::Plan&, const Placement&);

/// Whether what a rank wants of a tensor comes from shares, where the old plan has any: who keeps but a share has the parameters of all of
/// its shard, in fp32 exactly.
constexpr bool comes_from_pieces(bool old_shares, bool parameters_only, Precision old_precision) {
  return old_shares && !(parameters_only && old_precision == Precision::fp32);
}
/// Parameter and two moments, or the parameter alone (Run::kinds).
constexpr std::int64_t numbers_of_an_element(bool parameters_only) { return parameters_only ? 1 : 3; }

/// Elements of `wanted` that some of `sources` have.
std::int64_t covered(const Holding& wanted, const std::vector<const Holding*>& sources);

/// Takes every element of `wanted` from the first of `sources` that has it: calls take(source, runs). The sources must have all of it.
void cover(int tensor, const Holding& wanted, const std::vector<const Holding*>& sources, bool parameters_only,
           const std::function<void(const Holding& source, const Run& run)>& take);

}  // namespace flotilla::program
