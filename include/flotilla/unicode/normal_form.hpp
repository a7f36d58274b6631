#pragma once
#include <string>
#include <string_view>

namespace flotilla::unicode {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// `text`, valid UTF-8, in that form. Throws Error{unavailable} where no library for it was linked.
std::string normalized(std::string_view text, NormalForm);

}  // namespace flotilla::unicode
