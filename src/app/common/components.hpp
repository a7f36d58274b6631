#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/slurm/allocation.hpp"

namespace flotilla::app {

/// How to start one world over all components of the job.
std::string launch_line(const slurm::SlurmAllocation&);

/// The first component of a heterogeneous job that no rank is in; nothing where every one has ranks, in plain jobs, and where the place of
/// some rank is not known. `places`: the component of each rank.
std::optional<std::size_t> component_without_ranks(const slurm::SlurmAllocation&, std::span<const std::optional<std::size_t>> places);

}  // namespace flotilla::app
