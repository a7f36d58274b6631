#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "app/common/table.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::app {

/// Options of `flotilla inspect`.
struct InspectOptions {
  Job::Output output;
  bool verify = false;     ///< read a checkpoint whole and compare its checksums
  std::string write_plan;  ///< file for the plan of a checkpoint; empty: none
};
options::Table inspect_table(InspectOptions&);
BoundTable inspect_options();

/// `flotilla inspect FILE`: what a plan, profile or checkpoint (a run directory: its newest) holds. Local.
/// Exit code bad_input after printing when --verify finds damage. Throws Error{usage, bad_input}.
int inspect(std::span<const std::string> arguments);

/// A profile for people: devices, links and operation times.
std::string profile_text(const cluster::Profile&, const Style& = {});
/// A profile library: besides, what is known of which model on which types, and of which links.
std::string library_text(const files::Library&, const Style& = {});
/// A checkpoint for people: where the run stands, its plan, its provenance without options that stand at their defaults, and its tensors,
/// those of equal blocks in one line.
std::string checkpoint_text(const checkpoint::Description&, const std::filesystem::path& directory, const Style& = {});

/// The tensors of a state.h5 without a manifest, for people.
std::string tensors_text(const checkpoint::Description&, const std::filesystem::path& file, const Style& = {});

/// The same for programs: one JSON document that ends in a newline. Plans and profiles are their own files' JSON.
/// `newer`: a checkpoint of the same run on nodes' storage only.
std::string checkpoint_json(const checkpoint::Description&, const std::filesystem::path& directory,
                            const std::optional<journal::CheckpointRecord>& newer = {});
std::string tensors_json(const checkpoint::Description&, const std::filesystem::path& file);

}  // namespace flotilla::app
