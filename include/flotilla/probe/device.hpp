#pragma once
#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::probe {

/// Fastest rate of matrix products that this device reaches while its neighbours do the same: the best of several runs of a feed-forward
/// layer's first half, large enough that everything around the products is small. Takes about `budget`. Throws what the backend throws.
FlopsPerSecond peak(Precision, int threads, Seconds budget);

/// Rate of a triad a = b + s * c by `threads` threads over arrays of `bytes` in all, three transfers per element as STREAM counts them
/// (McCalpin 1995); best of a few rounds.
BytesPerSecond memory_bandwidth(int threads, Bytes bytes);

/// Bytes for memory_bandwidth(): four times this rank's part of the last-level caches, at most an eighth of `memory`.
Bytes triad_size(Bytes cache, Bytes memory);

}  // namespace flotilla::probe
