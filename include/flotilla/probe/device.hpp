#pragma once
#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::probe {

/// Fastest rate of matrix products that these processors reach while their neighbours do the same (compute::product_rate). Takes about
/// `budget`. Throws Error{unavailable} where they cannot multiply in the precision.
FlopsPerSecond peak(Precision, int threads, Seconds budget);

/// Rate of a triad a = b + s * c by `threads` threads over arrays of `bytes` in all, three transfers per element as STREAM counts them
/// (McCalpin 1995); best of a few rounds.
BytesPerSecond memory_bandwidth(int threads, Bytes bytes);

/// Bytes for memory_bandwidth(): four times this rank's part of the last-level caches, at most an eighth of `memory`.
Bytes triad_size(Bytes cache, Bytes memory);

}  // namespace flotilla::probe
