#include "byte_alphabet.hpp"

#include <array>

namespace flotilla::tokenizer {
namespace {

constexpr std::size_t others_begin = 0x100;

constexpr bool is_itself(std::size_t byte) { return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae; }

struct ByteSpelling {
  std::array<char16_t, 256> character{};
  std::array<int, 0x144> byte{};  ///< -1: of none
};

constexpr ByteSpelling make_spelling() {
  ByteSpelling spelling;
  spelling.byte.fill(-1);
  std::size_t other = others_begin;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto character = is_itself(byte) ? byte : other++;
    spelling.character[byte] = static_cast<char16_t>(character);
    spelling.byte[character] = static_cast<int>(byte);
  }
  return spelling;
}

constexpr ByteSpelling spelling = make_spelling();

}  // namespace

std::string spelled_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto character = spelling.character[static_cast<unsigned char>(c)];
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xc0 | character >> 6);
      text += static_cast<char>(0x80 | (character & 0x3f));
    }
  }
  return text;
}

std::optional<std::string> unspelled_bytes(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto character = static_cast<std::size_t>(static_cast<unsigned char>(text[at]));
    if (character >= 0x80) {
      if (at + 1 == text.size()) return std::nullopt;
      character = (character & 0x1f) << 6 | (static_cast<std::size_t>(static_cast<unsigned char>(text[++at])) & 0x3f);
      if (static_cast<unsigned char>(text[at - 1]) >= 0xe0) return std::nullopt;
    }
    if (character >= spelling.byte.size() || spelling.byte[character] < 0) return std::nullopt;
    bytes += static_cast<char>(spelling.byte[character]);
  }
  return bytes;
}

}  // namespace flotilla::tokenizer
