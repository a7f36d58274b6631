#pragma once
#include <span>
#include <string>

#include "app/common/commands.hpp"
#include "app/common/forecast_basis.hpp"
#include "app/common/job.hpp"

namespace flotilla::app {

/// Options of `flotilla simulate`.
struct SimulateOptions {
  ForecastBasis basis;
  std::vector<std::string> pool;  ///< TYPE[@ZONE]=COUNT[/NODE] that the plan is for; empty: what the profile and the types say
  options::Setting pool_setting;  ///< who said it
  std::string timeline;           ///< file for a Chrome trace; empty: none
  std::string measured;           ///< run directory or timeline that the trainer wrote; empty: none
  Job::Output output;
};
options::Table simulate_table(SimulateOptions&);
BoundTable simulate_options();

/// `flotilla simulate PLAN`: forecasts a plan. Local, needs no device. Exit code no_plan, with the forecast printed all the same, when the
/// plan does not fit into a device's memory. Throws Error{usage, bad_input, unavailable}.
int simulate(std::span<const std::string> arguments);

}  // namespace flotilla::app
