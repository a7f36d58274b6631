#pragma once
#include <cstdint>

#include "flotilla/base/philox.hpp"
#include "token_layout.hpp"

namespace flotilla::data {

constexpr std::uint64_t combine(std::uint64_t hash, std::uint64_t value) { return Philox::mix(hash ^ Philox::mix(value)); }

/// 64 bits over a file's size and content: all of it under 64 MiB, else 256 blocks of 64 KiB. Every step is a bijection of the word it
/// takes in, so changing any one word changes the result for certain, and others with all but 2^-64.
std::uint64_t content_hash(FileBytes);

}  // namespace flotilla::data
