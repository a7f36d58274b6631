#pragma once
#include "app/common/submit_options.hpp"

namespace flotilla::app {

/// `flotilla submit --resize ID [JOB]`: pending components of the job that ask for more nodes than their partition can ever give are made
/// smaller in the queue. Where a partition has none left, or the component is the first of a heterogeneous job, Slurm cannot do that: with
/// a job file the job is planned and sent anew over what there is, and the old one is cancelled; the run goes on from its run directory.
/// Returns the exit code. Throws Error{usage, bad_input, unavailable}.
int resize(const SubmitOptions&);

}  // namespace flotilla::app
