#pragma once
#include <cstdint>

#include "flotilla/base/units.hpp"

/// What the files of a run directory may hold at most: docs/formats/run-directory.md. More is refused, never worked on for long.
namespace flotilla::journal {

inline constexpr double latest_time = 1e11;                     ///< seconds since 1970: the year 5138
inline constexpr double longest_duration = 1e11;                ///< seconds
inline constexpr Bytes small_file{1 << 20};                     ///< claims, outcomes
inline constexpr Bytes longest_line{1 << 20};                   ///< of metrics.jsonl
inline constexpr Bytes largest_metrics{std::int64_t{1} << 30};  ///< metrics.jsonl
inline constexpr std::size_t most_groups = 10'000;              ///< of devices, in one event

}  // namespace flotilla::journal
