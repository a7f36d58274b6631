#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace flotilla::files {

/// The files that a name stands for: itself, where there is such a file or it holds none of * ? [; else those that match it, as in a shell,
/// in the order of their bytes. Throws Error{no_input} where none does, or where a folder on the way cannot be read.
std::vector<std::filesystem::path> matching_files(const std::string& name_or_pattern);

}  // namespace flotilla::files
