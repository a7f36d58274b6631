#pragma once
#include <span>
#include <string>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"

namespace flotilla::app {

/// Options of `flotilla validate`.
struct ValidateOptions {
  Job::Output output;
  bool runs = false;    ///< a line for every run, too
  bool as_new = false;  ///< devices take all figures but their vendors' from a relative
  std::string page;     ///< HTML file; empty: none
};
options::Table validate_table(ValidateOptions&);
BoundTable validate_options();

/// `flotilla validate PATH`: forecasts of published runs (a file, or a folder of them) beside what they measured. Local. Throws
/// Error{usage, bad_input}.
int validate(std::span<const std::string> arguments);

}  // namespace flotilla::app
