#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::plan {

/// A run along a tensor's cut dimension: `count` elements of that dimension from `global` on, at `local` in the shard.
struct ShardInterval {
  std::int64_t global = 0, count = 0, local = 0;
  bool operator==(const ShardInterval&) const = default;
};

/// The part of one tensor that one member of a tensor-parallel group holds: its shape, and where its runs sit in the whole.
struct Shard {
  std::vector<std::int64_t> shape;
  int dimension = -1;  ///< the cut dimension, or -1 when whole (then `intervals` is empty)
  std::vector<ShardInterval> intervals;
  bool operator==(const Shard&) const = default;
  std::int64_t elements() const;
};
Shard shard(const model::Tensor&, int tensor_parallel, int tensor_index);
/// Of that shard.
std::int64_t shard_elements(const model::Tensor&, int tensor_parallel, int tensor_index);

/// A shard as a list of two-dimensional boxes (outer x inner runs) in the row-major whole: element (o, i) of a box is at
/// global_offset + o * global_stride + i in the tensor, local_offset + o * local_stride + i in the shard.
struct Box {
  std::int64_t outer = 1, inner = 0;
  std::int64_t global_offset = 0, global_stride = 0;
  std::int64_t local_offset = 0, local_stride = 0;
  bool operator==(const Box&) const = default;
};
std::vector<Box> boxes(const model::Tensor&, const Shard&);

/// Who holds what under a plan: for each tensor of the model the ranks that hold a part of it.
struct Holder {
  Rank rank;
  int tensor_parallel = 1, tensor_index = 0;
  bool owner = false;  ///< exactly one owner per element: first replica, tensor index 0 where whole, first of tied stages; it counts in
                       ///< the clipping norm and writes checkpoints
  bool operator==(const Holder&) const = default;
};
struct ShardLayout {
  std::vector<model::Tensor> tensors;
  std::vector<std::vector<Holder>> holders;  ///< by tensor
  bool operator==(const ShardLayout&) const = default;
};
ShardLayout shard_layout(const Plan&);
/// By tensor the ranks that shard_layout() calls its owners, in the same order, without a list of all holders: of 100,000 ranks a few own.
std::vector<std::vector<Rank>> owners(const Plan&, const std::vector<model::Tensor>&);

/// The tensors that a rank at `stage` holds, in model::tensors order (indices into it): those whose layer or tied_layer lies in the stage.
std::vector<int> tensors_of_stage(const std::vector<model::Tensor>&, const Stage&);

}  // namespace flotilla::plan
