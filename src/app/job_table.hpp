#pragma once
#include "app/job.hpp"

namespace flotilla::app {

options::Choice<Precision> precisions();

/// The options of commands that print something: -o, --format, --log-level.
void add_output(options::Table&, Job::Output&);

}  // namespace flotilla::app
