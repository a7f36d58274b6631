#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

/// Least number of insertions, deletions, replacements and swaps of neighbours that turn one text into the other (optimal string
/// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known name closest to `word`, or "" when none is close enough to be what was meant. One that has all words of `word` and more
/// ("global-batch" for "batch") comes before one in which more than two letters differ, and else at most a third of the letters may.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// Whether two names differ in the case of their (ASCII) letters at most.
bool same_word(std::string_view a, std::string_view b);

/// "; did you mean '<nearest>'?", or "" when nothing is close. For the end of a message.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace flotilla
