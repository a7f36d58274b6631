#pragma once
#include <span>
#include <string>

#include "app/bench/bench_options.hpp"
#include "app/common/commands.hpp"

namespace flotilla::app {

/// The options of `flotilla bench`, for help, man page and completion.
BoundTable bench_options();

/// `flotilla bench`: tests nodes, alone or on every rank, and judges them; `flotilla bench REPORT` judges what was measured before,
/// `flotilla bench --compare OLD NEW` two of them. Returns 0, 1 where a threshold was crossed, 77 where a node was lost. Throws
/// Error{usage, bad_input, unavailable}.
int bench(std::span<const std::string> arguments);

}  // namespace flotilla::app
