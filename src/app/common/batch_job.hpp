#pragma once
#include <optional>
#include <span>
#include <string>

#include "app/common/job.hpp"
#include "flotilla/slurm/allocation.hpp"

namespace flotilla::app {

/// What a command takes from the batch system that started it, and from the options that say otherwise. A rank's own.
struct BatchJob {
  std::string id;               ///< empty outside of a job
  std::string zone;             ///< of this rank's device: --run.zone, else the partition of its component
  std::optional<Seconds> ends;  ///< on the clock of flotilla::now(): --run.time-limit from now, else what Slurm says
  std::optional<slurm::SlurmAllocation> allocation;
};

/// Throws Error{bad_input} for variables that cannot be Slurm's.
BatchJob batch_job(const Job&, std::span<const std::string> environment);
BatchJob batch_job(const Job&);

/// What squeue says of the time that the job has left, where this process is the first of a Slurm job whose environment does not say it.
/// To be asked before MPI starts: it starts a program. Nothing where Slurm does not answer.
std::optional<Seconds> time_left_of_job(std::span<const std::string> environment);

}  // namespace flotilla::app
