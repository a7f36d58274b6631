#pragma once
#include <span>
#include <string>

#include "app/common/submit_options.hpp"

namespace flotilla::app {

/// `flotilla submit JOB`: what the site has, the best plan over it, its price, and the batch script that asks for it; sent with sbatch
/// unless --dry-run. `flotilla submit --resize ID`: see resize.hpp. Local. Throws Error{usage, bad_input, unavailable, no_plan}.
int submit(std::span<const std::string> arguments);
/// The same of options that were read, without looking at --resize.
int submit(const SubmitOptions&);

}  // namespace flotilla::app
