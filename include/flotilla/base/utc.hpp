#pragma once
#include <optional>
#include <string>

/// Dates as files hold them: ISO 8601, UTC, "2026-11-20T09:30:00Z".
namespace flotilla {

std::string utc_now();

/// Seconds since 1970; nothing of text that is no such date.
std::optional<double> parse_utc(const std::string&);

}  // namespace flotilla
