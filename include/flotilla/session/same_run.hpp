#pragma once
#include <string>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::session {

/// What must be the same when a run is resumed, as text, one "key = value" a line: model, sequence length, global batch and seed. The
/// data's own fingerprint (data::Corpus::fingerprint) belongs beside it.
std::string training_identity(const RunConfig&);

/// A run that is continued must be the same run: other samples or another model would make its loss curve a lie. Throws Error{bad_input}.
void require_same_run(const RunConfig&, const std::string& data_fingerprint, const checkpoint::Loaded& saved);

}  // namespace flotilla::session
