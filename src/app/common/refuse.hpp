#pragma once
#include <string>

#include "flotilla/options/table.hpp"

namespace flotilla::app {

/// Throws the Error of an option's value that is right alone and wrong beside what else is known: usage where it stands on the command
/// line, else bad_input with its place. `word` is the value, or one item of a list.
[[noreturn]] void refuse(const options::Setting&, const std::string& word, const std::string& what);

}  // namespace flotilla::app
