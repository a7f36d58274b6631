#pragma once
#include <hdf5.h>

#include <cstdint>
#include <vector>

#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::store {

/// A rectangle of a dataset and where it lies in memory: `outer` runs of `inner` elements, `stride` apart, from `offset` on.
struct FileRectangle {
  std::vector<hsize_t> start, count;  ///< one per dimension
  std::int64_t outer = 1, inner = 0, offset = 0, stride = 0;
};

/// A box of the row-major whole as rectangles of a dataset of `shape`: one wherever the box is one, a few where a run breaks rows. None
/// has more than `most` elements unless one run of a box with many runs is longer.
std::vector<FileRectangle> rectangles(const std::vector<std::int64_t>& shape, const plan::Box&, std::int64_t most);

}  // namespace flotilla::store
