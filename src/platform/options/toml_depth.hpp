#pragma once
#include <string>
#include <string_view>

namespace flotilla::options::detail {

/// The parser destroys nested tables recursively and bounds neither dotted keys nor headers, so a hostile file could end the stack.
/// Throws Error{bad_input} ("source:line:1: ...") where brackets or the dots of one key nest deeper than any job file needs.
void require_shallow(std::string_view toml, const std::string& source);

}  // namespace flotilla::options::detail
