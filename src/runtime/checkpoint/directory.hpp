#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "flotilla/checkpoint/checkpoint.hpp"

/// What a run directory looks like and how it changes: one atomic step at a time. All local.
namespace flotilla::checkpoint {

inline constexpr std::string_view manifest_name = "manifest.json", state_name = "state.h5";

/// Where a step is written: its own folder, or a folder beside it when the step is committed already.
std::filesystem::path working_directory(const std::filesystem::path& run, std::int64_t step);
/// Step folders without a manifest, and folders that were to replace a step.
std::vector<std::filesystem::path> debris(const std::filesystem::path& run);

/// The manifest's entry for state.h5, which has the size it says. Throws Error{bad_input}.
StateFile require_state_file(const std::filesystem::path& directory, const Manifest&);

/// A new empty folder. Throws Error{unavailable}.
void make_directory(const std::filesystem::path&);
/// Writes the manifest under a temporary name, down to the disk, so that committing it needs no space.
void prepare_manifest(const std::filesystem::path& working, std::string_view text);
/// Renames the manifest into place and makes that last. When `working` stands beside the step's own folder, swaps the two: the old one
/// becomes debris. Throws Error{unavailable}; then the step is as it was before.
void commit(const std::filesystem::path& working, const std::filesystem::path& run, std::int64_t step);

/// Takes the manifest away first, so that what is left after a kill is debris. Throws Error{unavailable}.
void remove_step(const std::filesystem::path& directory);
/// Committed steps up to `step` beyond the newest `keep`; nothing when keep is 0.
std::vector<std::filesystem::path> beyond_keep(const std::filesystem::path& run, std::int64_t step, int keep);

}  // namespace flotilla::checkpoint
