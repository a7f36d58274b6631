#pragma once
#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::compute {

/// What the host's processors reach of matrix products on `threads` threads: a linear layer of 512 to 2048 columns on 128 rows a thread, by
/// the library and on the path that operations take. A run is a quarter of a GFLOP per thread, short enough to find an undisturbed moment
/// on a busy machine; the best one within `budget` counts, of three at least. Throws Error{unavailable} where this processor cannot
/// multiply in that precision.
FlopsPerSecond product_rate(Precision, int threads, Seconds budget);

}  // namespace flotilla::compute
