#include <functional>
#include <numeric>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::plan {
namespace {

using Extents = std::vector<std::int64_t>;

std::int64_t product(Extents::const_iterator first, Extents::const_iterator last) {
  return std::accumulate(first, last, std::int64_t{1}, std::multiplies<>{});
}

bool is_whole(const model::Tensor& tensor, int tensor_parallel, int tensor_index) {
  FLOTILLA_ASSERT(tensor_index >= 0 && tensor_index < tensor_parallel, tensor.name, " ", tensor_index, " of ", tensor_parallel);
  if (tensor.axis == model::Axis::none || tensor_parallel == 1) return true;
  FLOTILLA_ASSERT(tensor_parallel <= tensor.units(), tensor.name, " has ", tensor.units(), " units for ", tensor_parallel);
  return false;
}

}  // namespace

std::int64_t Shard::elements() const { return product(shape.begin(), shape.end()); }

Shard shard(const model::Tensor& tensor, int tensor_parallel, int tensor_index) {
  if (is_whole(tensor, tensor_parallel, tensor_index)) return {tensor.shape, -1, {}};
  const auto dimension = static_cast<std::size_t>(tensor.dimension);
  const std::int64_t part = tensor.shape[dimension] / tensor.fused;
  const model::UnitRange units = model::share(tensor.units(), tensor_parallel, tensor_index);
  const std::int64_t first = units.first * tensor.unit, count = units.count() * tensor.unit;
  Shard shard{tensor.shape, tensor.dimension, {}};
  shard.shape[dimension] = tensor.fused * count;
  for (std::int64_t p = 0; p < tensor.fused; ++p) shard.intervals.push_back({p * part + first, count, p * count});
  return shard;
}

std::int64_t shard_elements(const model::Tensor& tensor, int tensor_parallel, int tensor_index) {
  if (is_whole(tensor, tensor_parallel, tensor_index)) return tensor.elements();
  const std::int64_t count = model::share(tensor.units(), tensor_parallel, tensor_index).count() * tensor.unit;
  return tensor.elements() / tensor.shape[static_cast<std::size_t>(tensor.dimension)] * tensor.fused * count;
}

std::vector<Box> boxes(const model::Tensor& tensor, const Shard& shard) {
  if (shard.dimension < 0) return {{1, tensor.elements(), 0, tensor.elements(), 0, tensor.elements()}};
  const auto cut = tensor.shape.begin() + shard.dimension;
  const std::int64_t outer = product(tensor.shape.begin(), cut), inner = product(cut + 1, tensor.shape.end());
  const std::int64_t local_extent = shard.shape[static_cast<std::size_t>(shard.dimension)];
  std::vector<Box> boxes;
  for (const ShardInterval& run : shard.intervals)
    boxes.push_back({outer, run.count * inner, run.global * inner, *cut * inner, run.local * inner, local_extent * inner});
  return boxes;
}

}  // namespace flotilla::plan
