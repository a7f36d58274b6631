#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

/// CRC-32C without its initial and final inversion is linear over GF(2): the remainder of a text is the XOR of the remainders of its
/// pieces, each with zeros in place of the rest. So ranks that hold pieces of a segment make its checksum together by XOR, whatever the
/// cut. Remainders are bit-reversed, as the processor's instruction has them.
namespace flotilla::checkpoint {

/// x^(8 * bytes) modulo the polynomial.
std::uint32_t power(std::int64_t bytes) noexcept;
/// Product of two remainders.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept;
/// The remainder of a text followed by `bytes` zeros.
inline std::uint32_t shifted(std::uint32_t remainder, std::int64_t bytes) noexcept { return multiply(power(bytes), remainder); }
/// The remainder of a text followed by `data`.
std::uint32_t extended(std::uint32_t remainder, std::span<const std::byte> data) noexcept;
/// The CRC-32C of a text of `bytes` bytes with this remainder.
std::uint32_t crc_of(std::uint32_t remainder, std::int64_t bytes) noexcept;

}  // namespace flotilla::checkpoint
