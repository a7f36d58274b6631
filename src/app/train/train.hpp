#pragma once
#include <span>
#include <string>

namespace flotilla::app {

/// `flotilla train JOB`: probes (or reuses a fresh probe), plans, forms groups, trains, checkpoints; the same on every rank. Returns the
/// exit code, the same on every rank; a rank that cannot go on alone ends the job.
int train(std::span<const std::string> arguments);

}  // namespace flotilla::app
