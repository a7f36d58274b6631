#pragma once
#include <filesystem>
#include <string_view>

namespace flotilla::journal {

/// Makes `path` with this content unless it exists: of any number of processes on any hosts, exactly one gets true. A reader sees the
/// whole content or no file. Throws Error{unavailable} when nothing can be written there.
bool publish_once(const std::filesystem::path& path, std::string_view content);

/// Seconds since 1970 by the clock that stamps this folder's files, which may be a file server's. Throws Error{unavailable}.
double file_system_clock(const std::filesystem::path& folder);

}  // namespace flotilla::journal
