#pragma once
#include <functional>

#include "flotilla/comm/world.hpp"

namespace flotilla::app {

/// How long ranks may take to be there, before any option is read: those of a large job do not start at once.
inline constexpr Seconds ranks_start_deadline{120};

/// A command that every rank of a job runs (mpirun, srun): starts MPI, runs `work`, returns its exit code. Where all ranks have agreed on
/// an error, rank 0 says it and all end in good order; any other error ends the job.
int on_all_ranks(const std::function<int(const comm::World&)>& work);

}  // namespace flotilla::app
