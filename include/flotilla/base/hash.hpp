#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace flotilla {

/// FNV-1a, 64 bits: fingerprints of small texts, never a checksum of data.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t seed = 0xcbf29ce484222325u) {
  for (char c : bytes) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

/// CRC-32C (Castagnoli), the checksum of checkpoints: hardware instruction where there is one. `crc` continues an earlier value.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0) noexcept;

/// 16 lower-case hexadecimal digits.
std::string hex(std::uint64_t value);

}  // namespace flotilla
