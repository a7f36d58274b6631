#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/checkpoint/manifest.hpp"
#include "flotilla/checkpoint/state.hpp"
#include "flotilla/comm/world.hpp"

/// Training state on disk: step-N/ in the run directory holds state.h5 (every tensor in its global shape, so that any layout loads what
/// any other saved) and manifest.json, which is renamed into place last: a step without it does not exist. docs/formats/checkpoint.md.
namespace flotilla::checkpoint {

/// The phases of save(), in order.
enum class SavePhase { prepare, reserve, write, flush, verify, commit, prune };
std::string_view to_string(SavePhase);

struct SaveOptions {
  int keep = 2;           ///< committed steps to keep, this one included; older ones are removed. 0 keeps all
  Seconds deadline{600};  ///< for each agreement of the ranks: how long the slowest may come after the first
  /// Called on every rank when a phase begins; for progress lines.
  std::function<void(SavePhase)> on_phase = {};
};

/// What a save cost, on this rank.
struct SaveReport {
  std::filesystem::path directory;
  Bytes size;  ///< of state.h5
  Seconds total, checksum, write, flush, verify;
};

/// Commits `state` as `run`/step-<manifest.step>. Collective over the world, one thread, same arguments on every rank (the manifest counts
/// on rank 0 alone); nobody may change the state meanwhile. Removes what dead incarnations left uncommitted, so the caller holds the run
/// directory's lock. A committed step of the same number is replaced at once, where the file system can do that.
/// All ranks return, or all throw the same comm::AgreedError: temporary when the disk is too small or away, or a write failed. Nothing is
/// left behind, every committed checkpoint stays, and the same save may work later.
SaveReport save(const comm::World&, const std::filesystem::path& run, const LocalState& state, const Manifest&, const SaveOptions& = {});

struct LoadOptions {
  Seconds deadline{600};
};

/// Fills every part of `state` and returns the manifest. Collective. Every byte is checked against the checksums by the rank that uses it.
/// All ranks return, or all throw the same comm::AgreedError{bad_input} (damaged, or of another model) or {unavailable, temporary} (cannot
/// be read); `state` is then undefined.
Manifest load(const comm::World&, const std::filesystem::path& step_directory, const LocalState& state, const LoadOptions& = {});

struct Loaded {
  std::filesystem::path directory;
  Manifest manifest;
};
/// load() of the newest committed step that is sound: rank 0 warns about each damaged one it passes over, and about those whose weights
/// have exploded, which are tried last. Collective. Throws as load() does when none is left, when there is none, and at once when a
/// checkpoint is of another model or cannot be read.
Loaded load_newest_good(const comm::World&, const std::filesystem::path& run, const LocalState& state, const LoadOptions& = {});

struct CommittedStep {
  std::int64_t step = 0;
  std::filesystem::path directory;
  bool operator==(const CommittedStep&) const = default;
};
/// `run`/step-<step>.
std::filesystem::path step_directory(const std::filesystem::path& run, std::int64_t step);
/// Committed steps, ascending; empty when the run directory does not exist. Local. Throws Error{temporary, unavailable} when a folder
/// cannot be seen: nobody may take that for "none".
std::vector<CommittedStep> list(const std::filesystem::path& run);
/// Folders and files named as a step that are no checkpoint and that no interrupted save of ours has left. Local; throws as list().
std::vector<std::filesystem::path> uncommitted(const std::filesystem::path& run);
/// The newest committed step whose manifest is sound, one whose weights have exploded only where there is no other; nothing when no step is
/// committed. Local. Throws Error{bad_input} when there are some and none can be read, else as list().
std::optional<Loaded> latest(const std::filesystem::path& run);

/// One dataset of a checkpoint.
struct TensorDescription {
  StateKind kind = StateKind::parameters;
  std::string name;
  std::vector<std::int64_t> shape;
  Bytes size;
  std::int64_t segments = 0;          ///< checksummed pieces
  std::vector<std::int64_t> damaged;  ///< segments whose checksum is wrong; empty when not verified
};
struct Description {
  Manifest manifest;
  std::vector<TensorDescription> tensors;
  bool verified = false;  ///< checksums were computed
  std::int64_t damaged_segments() const;
};
/// For people: what a checkpoint holds. With `verify`, reads and checks all of it. Local, needs no MPI. Throws Error{bad_input} when the
/// manifest or the structure of state.h5 is broken, and for tensors that are missing or swapped, as a load does.
Description describe(const std::filesystem::path& step_directory, bool verify);
/// The tensors in a state.h5 without a manifest, by its own checksums. HDF5 may crash on it, so a child process reads it. Local; for a
/// process of one thread. Throws Error{bad_input}.
std::vector<TensorDescription> describe_bare(const std::filesystem::path& state, bool verify);

}  // namespace flotilla::checkpoint
