#pragma once
#include <span>
#include <string>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::app {

/// Options of `flotilla control`.
struct ControlOptions {
  std::string plan;  ///< file
  Seconds wait{60};  ///< for the run's answer; 0: not at all
  Job::Output output;
};
options::Table control_table(ControlOptions&);
BoundTable control_options();

/// `flotilla control RUN --plan PLAN`: asks the run that holds the directory to go on under another plan and tells what came of it. Local.
/// Throws Error: unavailable when no run holds the directory or none answers in time, bad_input for a plan that is none or was refused.
int control(std::span<const std::string> arguments);

}  // namespace flotilla::app
