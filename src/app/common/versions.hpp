#pragma once
#include <string>
#include <utility>
#include <vector>

namespace flotilla::app {

/// Flotilla, the compiler and every library behind a room, as linked.
std::vector<std::pair<std::string, std::string>> versions();

}  // namespace flotilla::app
