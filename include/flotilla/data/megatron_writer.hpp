#pragma once
#include <cstdint>
#include <filesystem>

#include "flotilla/store/plain_file.hpp"

namespace flotilla::data {

/// Bytes of a token in files for a vocabulary of that size: 2 below 65,500 tokens, else 4, as Megatron chooses.
constexpr int megatron_token_bytes(int vocabulary) { return vocabulary < 65500 ? 2 : 4; }

/// Writes Megatron's .idx of sequences whose lengths lie in `lengths`, an int32 each, the last of a document negated less one (~length).
/// Bounded memory; flushed to the disk. Throws Error{unavailable, temporary} with the path.
void write_megatron_index(const std::filesystem::path& index, const store::PlainFile& lengths, int token_bytes);

}  // namespace flotilla::data
