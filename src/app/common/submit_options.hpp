#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/common/commands.hpp"
#include "app/common/planning_options.hpp"

namespace flotilla::app {

/// [submit] of a job file: how a site is read and what its batch script says.
struct SubmitSettings {
  bool dry_run = false;
  bool wait = false;                      ///< plan over what the partitions have in all, not over what is free now
  std::string resize;                     ///< id of a pending job to make smaller instead; empty: none
  std::string answers;                    ///< folder of recorded answers; empty: ask the site
  std::string record;                     ///< folder to record them in; empty: none
  std::string script;                     ///< file; empty: submit.sh in the run directory, or standard output
  std::vector<std::string> partitions;    ///< empty: all that are open
  std::vector<std::string> device_types;  ///< "gpu:a100=A100-80", "feature:NAME=TYPE", "partition:NAME=TYPE"
  std::vector<std::string> modules;       ///< "NAME", "PARTITION:NAME"
  Seconds time;                           ///< 0: the partition's standard
  Bytes memory;                           ///< of a node; 0: the site's standard
  int cpus_per_task = 0;                  ///< 0: the device's share of its node
  bool fixed_nodes = false;
  std::string account, qos, log = "flotilla-%j.log", library;
  std::string signal = "USR2", on_no_plan = "stop";
  Seconds warning{120};
  int requeues = 100;
};
void add_submit(options::Table&, SubmitSettings&);

/// Options of `flotilla submit`: those of planning and [submit].
struct SubmitOptions {
  PlanningOptions planning;
  SubmitSettings submit;
  std::string job_file;  ///< "" without one
  std::string run_directory = Job::Run{}.directory;
  std::int64_t steps = 0;  ///< of the job; 0: there is none
};
options::Table submit_table(SubmitOptions&);
BoundTable submit_options();
/// Throws Error{usage, bad_input}.
SubmitOptions read_submit_options(std::span<const std::string> arguments, std::span<const std::string> environment);

}  // namespace flotilla::app
