#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::session {

/// What must be the same when a run is resumed, as text, one "key = value" a line: model, sequence length, global batch, seed and,
/// where it began from somebody's weights, their folder. The data's own fingerprint (data::Corpus::fingerprint) belongs beside it.
std::string training_identity(const RunConfig&);

/// The newest checkpoint of a run directory that can be read; nothing where a new run may begin: no step was ever saved there, or
/// `start_over` and none can be read. Warns when the journal tells of a newer one. Local. Throws Error{unavailable} where there are traces
/// of a run without any checkpoint, else as checkpoint::latest() does.
std::optional<checkpoint::Loaded> checkpoint_to_resume(const std::filesystem::path& run, bool start_over);

/// A run that is continued must be the same run: other samples or another model would make its loss curve a lie. The data's fingerprint
/// counts where the checkpoint has no record of the data (data_record.hpp). Throws Error{bad_input}.
void require_same_run(const RunConfig&, const std::string& data_fingerprint, const checkpoint::Loaded& saved);

/// Over how many steps the learning rate decays, counted from the start of the run: what the job says, else what the checkpoint says, so that
/// a run that is continued with more steps keeps its schedule; else the job's steps. Throws Error{bad_input} where the checkpoint's is no
/// number of steps.
std::int64_t decay_steps(const RunConfig&, const std::optional<checkpoint::Loaded>& saved);
/// Where decay_steps() is in a manifest's provenance.
inline constexpr const char* decay_steps_key = "decay steps";
/// What to tell a user whose --training.steps is not where the decay ends, though he has not said where; empty: nothing.
std::string decay_remark(const RunConfig&, std::int64_t decay_steps);

}  // namespace flotilla::session
