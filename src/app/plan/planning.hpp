#pragma once
#include <span>
#include <string>

namespace flotilla::app {

/// `flotilla plan [JOB]`: the best plan for a pool, its forecast, what else was close and why it lost. Local, needs no device. Where
/// nothing fits: exit code no_plan with one line of why, and with --format json a document whose plan is null. Throws Error{usage,
/// bad_input, unavailable, no_plan}.
int find_plan(std::span<const std::string> arguments);

}  // namespace flotilla::app
