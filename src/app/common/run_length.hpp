#pragma once
#include <cstdint>

#include "flotilla/options/table.hpp"

namespace flotilla::app {

/// Iterations that train on so many tokens, rounded up: `tokens` is an option's value such as 15B. Throws the option's Error for anything
/// else.
std::int64_t iterations_for(const options::Setting& tokens, int global_batch, int length);

}  // namespace flotilla::app
