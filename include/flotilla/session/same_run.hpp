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

}  // namespace flotilla::session
