#pragma once

namespace flotilla::comm {

/// Calls of operator new by this program so far.
long allocations() noexcept;

}  // namespace flotilla::comm
