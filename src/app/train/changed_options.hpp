#pragma once
#include <string>

#include "app/common/job.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"

namespace flotilla::app {

/// What the job says otherwise than the job that wrote a checkpoint: "learning-rate 0.001 -> 0.0005, data.validation-fraction 0.05 -> 0.1".
struct ChangedOptions {
  std::string accepted;  ///< that alter the run from here on
  std::string fixed;     ///< that make it another run, which session::require_same_run() refuses
};

/// From the configuration in the checkpoint's provenance; nothing where it has none that can be read. `source` is for that message. The
/// schedule of the learning rate is compared as the checkpoint leaves it and as the run goes on.
ChangedOptions changed_options(const Job&, const checkpoint::Loaded& saved);

}  // namespace flotilla::app
