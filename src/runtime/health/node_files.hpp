#pragma once
#include <filesystem>
#include <string>

namespace flotilla::health {

/// A small file of the kernel (/proc, /sys) without its last line end; "" where it is not there or cannot be read. Its size is not known
/// beforehand, so files::read_text() does not read it.
std::string kernel_file(const std::filesystem::path&);

/// The word in brackets of "always [madvise] never"; the whole text where there are none.
std::string chosen_word(const std::string&);

}  // namespace flotilla::health
