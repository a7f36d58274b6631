#pragma once
#include <filesystem>

#include "flotilla/base/units.hpp"

namespace flotilla::health {

struct DiskRates {
  BytesPerSecond write;    ///< until it is on the disk
  BytesPerSecond read;     ///< 0: not measured
  double clock_error = 0;  ///< seconds that this node's clock is ahead of the clock that dates the files there
};

/// Writes `size` bytes to a file of its own in `folder`, flushes it, drops it from the page cache, reads it back, compares and removes it.
/// That twice at least, and up to five times within `budget`. The best pass counts: a flush waits for what others write. Less is
/// written where that takes a pass longer than a quarter of `budget`. Local. Throws Error{unavailable, temporary}: no room, no permission,
/// other bytes.
DiskRates test_disk(const std::filesystem::path& folder, Bytes size, Seconds budget);

}  // namespace flotilla::health
