#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "flotilla/checkpoint/checkpoint.hpp"

/// Checkpoints on storage of the nodes' own: every rank writes what it owns into a file of its node, and later, beside the steps, all of
/// them are drained into the run directory as an ordinary checkpoint. docs/formats/local-checkpoint.md.
namespace flotilla::checkpoint {

/// Where a rank keeps its parts.
struct LocalPlace {
  std::filesystem::path folder;  ///< on this rank's node; it exists, and belongs to this run alone
  int incarnation = 0;           ///< of the run, that saves now
};

/// A checkpoint of which some parts lie on the nodes: the same value on every rank.
struct LocalCheckpoint {
  std::int64_t step = 0;
  int incarnation = 0;
  std::vector<int> readers;  ///< by part: the rank that reads it; -1: nobody sees it
  bool complete() const;
};
/// One that save_locally() has just committed: everybody reads his own.
LocalCheckpoint saved_locally(const comm::World&, const LocalPlace&, std::int64_t step);

/// Commits `state` as `manifest.step` of this incarnation, which has no such step yet. Collective, as save(); the same arguments but for
/// the place. All ranks return, with the bytes of all parts, or all throw the same comm::AgreedError{temporary, unavailable}: no part of it
/// is left then. on_phase hears of prepare, write, flush and commit.
SaveReport save_locally(const comm::World&, const LocalPlace&, const LocalState& state, const Manifest&, const SaveOptions& = {});

/// What earlier incarnations from `first_incarnation` on left, the newest first. Collective.
std::vector<LocalCheckpoint> list_local(const comm::World&, const LocalPlace&, int first_incarnation, Seconds deadline);
/// Hosts whose parts nobody sees: "n2, n3". Collective. Empty where no part that is there can be read.
std::string missing_hosts(const comm::World&, const LocalPlace&, const LocalCheckpoint&, Seconds deadline);

/// save() of a complete checkpoint into the run directory, read from its parts with a buffer of 3 MiB. Collective. `tensors`: the model's.
/// Throws as save() does, and comm::AgreedError{bad_input} where a part is damaged, gone, or of another model; parts stay in any case.
SaveReport drain(const comm::World&, const LocalPlace&, const LocalCheckpoint&, const std::vector<model::Tensor>& tensors,
                 const std::filesystem::path& run, const SaveOptions& = {});

/// Removes this rank's parts of steps up to `step` but `kept`. Local; what cannot be removed is warned of.
void remove_parts(const LocalPlace&, Rank, std::int64_t step, std::int64_t kept = -1) noexcept;
/// Removes every part in the folder, those of other ranks and unfinished ones too. Local; nobody may be writing.
void remove_all_parts(const LocalPlace&) noexcept;

}  // namespace flotilla::checkpoint
