#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/model/operations.hpp"

namespace flotilla::model {

/// Neighbouring columns of a linear layer's output on one rank, which one part of its adapter makes.
struct AdapterPiece {
  int part = 0;
  std::int64_t first = 0, count = 0;
};

/// The adapter of a linear layer on one rank: low (N, width) = scale x A^T, and columns of y += low's columns of the piece's part times
/// rows of B. A has `width` rows, the parts one after the other; B has the rows of the layer's weight.
struct AdapterShape {
  int parts = 1;
  std::int64_t rank = 0, in = 0, out = 0;  ///< in, out: those of this rank's shard of the weight
  std::vector<AdapterPiece> pieces = {};   ///< together all columns of the output
  std::int64_t width() const { return parts * rank; }
};
/// Of a layer that is a target. Where keys are shared, qkv has three pieces a group.
AdapterShape adapter_shape(const Config&, const LayerShape&, Linear);

/// The linear layers that an operation multiplies with, forward or back: two, or none.
std::vector<Linear> linears_of(Operation);

/// What the adapters add to an operation's FLOPs, on this rank. A whole backward pass makes the low-rank input once more, which is not
/// kept, and its gradient once; the weights' half makes both once more.
double adapter_flops(const Config&, const LayerShape&, Operation);
/// What they add to its temporaries (workspace): the low-rank input and its gradient, of each target.
Bytes adapter_workspace(const Config&, const LayerShape&, Operation);

}  // namespace flotilla::model
