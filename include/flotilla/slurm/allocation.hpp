#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::slurm {

/// A component of a heterogeneous job; a plain job is one component.
struct Component {
  std::string job;  ///< its own job id
  std::string partition;
  std::vector<std::string> hosts;
  bool operator==(const Component&) const = default;
};

/// What Slurm says about the job that this process is part of.
struct SlurmAllocation {
  std::string job;                    ///< of a heterogeneous job: its leader's
  std::vector<Component> components;  ///< at least one
  int restarts = 0;                   ///< how often the job was requeued
  std::string host;                   ///< this process's, as Slurm calls it; empty where Slurm did not start the process
  std::optional<double> ends_at;      ///< seconds since 1970 (UTC); Slurm before 23.02 does not say
  bool operator==(const SlurmAllocation&) const = default;

  bool heterogeneous() const { return components.size() > 1; }
};

/// From environment variables, "NAME=VALUE"; nothing outside of a Slurm job. Every value is hostile: throws Error{bad_input} of one line
/// that names the variable. `SLURM_JOB_PARTITION` counts for plain jobs alone: in the steps of a heterogeneous job it may be another
/// component's.
std::optional<SlurmAllocation> read_allocation(std::span<const std::string> environment);

/// The component whose node list holds the host; nothing where none does or where several do.
std::optional<std::size_t> component_of(const SlurmAllocation&, const std::string& host);

/// The partition of this process's component; empty where that cannot be told.
std::string partition_here(const SlurmAllocation&);

}  // namespace flotilla::slurm
