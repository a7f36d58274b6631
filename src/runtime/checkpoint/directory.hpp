#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "structure.hpp"

/// Checkpoints as folders: which are committed, what was left behind, how one appears and how one goes. Rank 0 alone calls what changes
/// something. Nothing is removed or replaced that cannot be proven to be a checkpoint of ours: a folder with our mark, or one with a sound
/// manifest of its step; of what is in it, only the files that a checkpoint has. Every failed look throws Error{temporary, unavailable}.
namespace flotilla::checkpoint {

inline constexpr std::string_view manifest_name = "manifest.json", state_name = "state.h5", mark_name = "mark.json";

/// Where a step is written: its own folder, or a folder beside it when the step is committed already.
std::filesystem::path working_directory(const std::filesystem::path& run, std::int64_t step);
/// Folders with our mark that are no committed step: unfinished ones, and those that were to replace a step.
std::vector<std::filesystem::path> debris(const std::filesystem::path& run);

/// The text of a manifest, of at most 16 MiB, and what it says in this folder. Throw as read_manifest().
std::string manifest_text(const std::filesystem::path& directory);
Manifest manifest_in(const std::filesystem::path& directory, std::string_view text);

/// The manifest's entry for state.h5, which has the size it says. Throws Error{bad_input}.
StateFile require_state_file(const std::filesystem::path& directory, const Manifest&);
/// state.h5, open for reading, after its structure was compared with the manifest and its step, too. Throws Error{bad_input} for damage,
/// Error{temporary, unavailable} when it cannot be read.
StateReader open_state(const std::filesystem::path& directory, const Manifest&);

/// A new folder with nothing but our mark. What stands in its way and is not ours is renamed, with a warning. Throws Error.
void make_directory(const std::filesystem::path&);
/// Writes the manifest under a temporary name, down to the disk, so that committing it needs no space.
void prepare_manifest(const std::filesystem::path& working, std::string_view text);
/// Renames the manifest into place and makes that last. When `working` stands beside the step's own folder, swaps the two: the old one
/// becomes debris. `committed` is set once the step exists: what fails later leaves it there. Throws Error.
void commit(const std::filesystem::path& working, const std::filesystem::path& run, std::int64_t step, bool& committed);

/// Takes the manifest away first, so that what is left after a kill is debris; files that no checkpoint has stay, and the folder with them.
/// Throws Error{unavailable, temporary}; unavailable where the folder cannot be proven to be ours: then it is as it was.
void remove_step(const std::filesystem::path& directory);
/// Committed steps up to `step` that are older than its newest `keep` good ones: whose manifest can be read and whose weights have not
/// exploded. Of those whose weights have, all but the newest `keep`. Nothing when keep is 0.
std::vector<std::filesystem::path> beyond_keep(const std::filesystem::path& run, std::int64_t step, int keep);

}  // namespace flotilla::checkpoint
