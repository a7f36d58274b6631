#pragma once
#include <vector>

#include "app/common/commands.hpp"

namespace flotilla::app {

/// Every command of the program, in the order of help.
std::vector<Command> command_table();

}  // namespace flotilla::app
