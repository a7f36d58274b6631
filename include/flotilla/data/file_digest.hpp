#pragma once
#include <cstdint>
#include <filesystem>

namespace flotilla::data {

/// 64 bits over a file's size and bytes, not over its name: all of a file under 64 MiB; of a larger one 256 blocks of 64 KiB, the first,
/// the last and others evenly between. Throws Error{bad_input} for what is no file, or empty.
std::uint64_t file_digest(const std::filesystem::path&);

}  // namespace flotilla::data
