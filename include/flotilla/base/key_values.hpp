#pragma once
#include <string>
#include <utility>
#include <vector>

namespace flotilla {

/// Characters of a UTF-8 text: what it takes on a terminal, for the letters that appear in ours.
std::size_t shown_width(const std::string&);

/// Where the word that begins at `begin` ends for the breaking of lines: a figure keeps its unit ("1.5 GiB", "30 %"), an error its sign
/// ("+- 12 %").
std::size_t end_of_word(const std::string& text, std::size_t begin);

/// Lines of "key   value", both printable(), keys padded to one width; further lines of a value are indented as far.
std::string key_values(const std::vector<std::pair<std::string, std::string>>&);

}  // namespace flotilla
