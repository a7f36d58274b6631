#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/safetensors/file.hpp"
#include "flotilla/safetensors/writer.hpp"

namespace flotilla::safetensors {

/// Bytes of the header's length, the first in a file.
inline constexpr std::int64_t length_bytes = 8;
/// Longest header that is read, as in the reference implementation.
inline constexpr std::int64_t most_header_bytes = 100'000'000;

/// The tensors that the header of a file declares, in the order of their bytes. Throws Error{bad_input}.
std::vector<Entry> read_header(std::span<const std::byte> file, const std::filesystem::path&);

/// Length and header of a file of these tensors, in their order; a multiple of 8 bytes.
std::string header_text(const std::vector<Declared>&, Precision);

}  // namespace flotilla::safetensors
