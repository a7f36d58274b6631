#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "flotilla/base/units.hpp"

namespace flotilla::files {

/// Largest text file read at once.
inline constexpr Bytes text_limit{64 << 20};

/// The whole file. Throws Error{bad_input} when it cannot be read or is larger than `limit`.
std::string read_text(const std::filesystem::path&, Bytes limit = text_limit);

/// Writes all or nothing: a temporary file in the same folder, flushed to the disk, then renamed over `path`; the folder is flushed
/// too. Throws Error{unavailable or temporary} and leaves an older file as it was.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace flotilla::files
