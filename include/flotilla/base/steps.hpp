#pragma once
#include <cstdint>

namespace flotilla {

/// Of a run. Times 2^24 sequences a batch it stays below 2^63; at three steps a second it takes a thousand years.
inline constexpr std::int64_t most_run_steps = 100'000'000'000;

}  // namespace flotilla
