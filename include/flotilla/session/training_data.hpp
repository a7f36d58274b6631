#pragma once
#include <optional>
#include <string>

#include "flotilla/data/sampler.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::session {

struct TrainingData {
  data::Sampler training;
  std::optional<data::Sampler> validation;
  std::string fingerprint;
  std::string remark;  ///< what is unusual about them, for a warning; empty: nothing
};
/// Local. Throws Error{bad_input} for files that do not hold what the run needs.
TrainingData open_data(const RunConfig&);

}  // namespace flotilla::session
