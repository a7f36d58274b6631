#pragma once
#include <optional>
#include <span>
#include <string>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "flotilla/files/profile_file.hpp"

namespace flotilla::app {

/// Options of `flotilla import`.
struct ImportOptions {
  Job::Output output;
  std::string profiles;  ///< library that knows the plan's model and device types; empty: none
  std::string model;     ///< empty: the one that the plan names
  int global_batch = 0;  ///< sequences; 0: what the plan says
  std::string report;    ///< of flotilla bench, that measurements are added to; empty: a new one
  std::string hosts;     ///< that they were made on, as Slurm lists them; empty: what their file says
  std::string run;       ///< of a file of published runs; empty: its only one
};
/// What -o gets, and what is in it, for people.
struct Imported {
  std::string text, summary;
};
options::Table import_table(ImportOptions&);
BoundTable import_options();

/// `flotilla import WHAT FILE`: published data as files of ours. Local. What: hf (the folder of a Hugging Face model is checked, and
/// becomes the section of a job file that starts from its weights), llmc (a model file of llm.c becomes such a folder, and the section is
/// printed), sailor-profiles (a folder becomes a profile library),
/// sailor-plan (a plan of that artifact becomes a plan), published (a published run becomes a plan and its cluster, and is forecast),
/// nccl-tests, nvbandwidth, osu (what those measured becomes part of a report of flotilla bench). Throws Error{usage, bad_input}.
int import_published(std::span<const std::string> arguments);

}  // namespace flotilla::app
