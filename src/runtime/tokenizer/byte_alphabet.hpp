#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace flotilla::tokenizer {

/// GPT-2's spelling of byte strings as printable characters: printable Latin-1 is itself, the other 68 bytes are U+0100 to U+0143.
std::string spelled_bytes(std::string_view bytes);
/// The bytes that `text` spells; none where it holds another character.
std::optional<std::string> unspelled_bytes(std::string_view text);

}  // namespace flotilla::tokenizer
