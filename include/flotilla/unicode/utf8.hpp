#pragma once
#include <cstddef>
#include <string>
#include <string_view>

/// UTF-8 as it is, without a library.
namespace flotilla::unicode {

/// Bytes of the character that begins with `lead`; `text` it stands in is valid.
constexpr std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
/// Whether a character begins at this byte.
constexpr bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

/// Bytes from the beginning that are valid UTF-8: no surrogates, nothing overlong, nothing beyond U+10FFFF.
std::size_t valid_prefix(std::string_view bytes);

/// `bytes` with U+FFFD in place of every sequence that is no UTF-8. A sequence is the longest beginning of a character, else one byte, as
/// in Python's errors="replace" and in Unicode's recommendation.
std::string repaired(std::string_view bytes);

}  // namespace flotilla::unicode
