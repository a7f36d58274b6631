#pragma once
#include <string>
#include <utility>
#include <vector>

namespace flotilla {

/// Characters of a UTF-8 text: what it takes on a terminal, for the letters that appear in ours.
std::size_t shown_width(const std::string&);

/// Lines of "key   value", both printable(), keys padded to one width; further lines of a value are indented as far.
std::string key_values(const std::vector<std::pair<std::string, std::string>>&);

}  // namespace flotilla
