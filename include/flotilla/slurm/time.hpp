#pragma once
#include <optional>
#include <string_view>

#include "flotilla/base/units.hpp"

namespace flotilla::slurm {

/// A time as Slurm's tools print and take it: "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
/// "days-hours:minutes", "days-hours:minutes:seconds"; nothing for UNLIMITED, INVALID, NOT_SET, N/A and whatever else is no time.
std::optional<Seconds> parse_time(std::string_view);

/// Of lines that are such times the least; nothing where none is.
std::optional<Seconds> shortest_time(std::string_view lines);

}  // namespace flotilla::slurm
