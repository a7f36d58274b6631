#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::session {

/// What must be the same when a run is resumed after so many steps, as text, one "key = value" a line: model, seed, where it began from
/// somebody's weights, their folder, and of every phase that has begun, what decides its sequences: first step, length, batch, sources. Of
/// the first phase "length" and "global-batch" alone, as of a run without phases. The data's own fingerprint (data::Corpus::fingerprint)
/// belongs beside it.
std::string training_identity(const RunConfig&, std::int64_t steps_done);

/// The newest checkpoint of a run directory that can be read; nothing where a new run may begin: no step was ever saved there, or
/// `start_over` and none can be read. Warns when the journal tells of a newer one. Local. Throws Error{unavailable} where there are traces
/// of a run without any checkpoint, else as checkpoint::latest() does.
std::optional<checkpoint::Loaded> checkpoint_to_resume(const std::filesystem::path& run, bool start_over);

/// The job is not the one whose run is in the directory. The message ends in what to do.
class OtherRun : public Error {
 public:
  OtherRun(const std::string& checkpoint, std::string difference);
  const std::string& difference() const { return difference_; }

 private:
  std::string difference_;
};

/// A run that is continued must be the same run: other samples or another model would make its loss curve a lie. The data's fingerprint
/// counts where the checkpoint has no record of the data (data_record.hpp). Throws OtherRun, and Error{bad_input} that names the option.
void require_same_run(const RunConfig&, const std::string& data_fingerprint, const checkpoint::Loaded& saved);

}  // namespace flotilla::session
