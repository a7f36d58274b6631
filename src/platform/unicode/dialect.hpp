#pragma once
#include <string>
#include <string_view>

namespace flotilla::unicode {

/// A pattern of Oniguruma's Ruby syntax in PCRE2's. Throws Error{bad_input} with the byte in the pattern for what both write alike and mean
/// differently, and for what no published tokenizer uses.
std::string in_pcre2(std::string_view pattern);

}  // namespace flotilla::unicode
