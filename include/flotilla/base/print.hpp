#pragma once
#include <string_view>

namespace flotilla {

/// Writes lines to standard output, as printable_output(), so that a message that the same thread logs next stands behind them, not among
/// them. Launchers forward the two streams apart, in blocks of 4 KiB: a longer text goes out in pieces of whole lines, each when the one
/// before should have been forwarded. Returns false if standard output cannot be written. Other threads' messages do not wait.
bool print(std::string_view lines);

}  // namespace flotilla
