#pragma once
#include <string>

#include "flotilla/session/incarnation_totals.hpp"

namespace flotilla::app {

/// What an incarnation did, in lines of key and value that fit 80 columns but for long directories: steps and speed, loss, where its
/// checkpoint and metrics are. Empty where it made no step.
std::string run_summary(const session::IncarnationTotals&, std::int64_t of_steps, const std::string& directory);

}  // namespace flotilla::app
