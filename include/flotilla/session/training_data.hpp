#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/data/sampler.hpp"
#include "flotilla/session/data_files.hpp"
#include "flotilla/session/data_record.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::session {

struct TrainingData {
  data::Sampler training;
  std::optional<data::Sampler> validation;  ///< its sources are those of the training data that have held-out data
  std::string fingerprint;                  ///< of all training data, as the job names them
  std::vector<SourceRecord> record;         ///< for checkpoints
  std::string remark;                       ///< what is unusual about them, for a warning; empty: nothing

  /// A run that is resumed goes on with this record, which is continued() from the checkpoint's and this one. Local. Throws
  /// Error{bad_input} where there is not enough data for the run.
  void continue_from(std::vector<SourceRecord>, const RunConfig&);
};
/// `files` are those of sources_of(). Local. Throws Error{bad_input} for files that do not hold what the run needs.
TrainingData open_data(const RunConfig&, const std::vector<SourceFiles>& files);

}  // namespace flotilla::session
