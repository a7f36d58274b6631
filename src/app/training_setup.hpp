#pragma once
#include <optional>
#include <string>

#include "app/job.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/data/sampler.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/train/options.hpp"

/// What a job says, in the terms of the rooms that do it.
namespace flotilla::app {

struct Samplers {
  data::Sampler training;
  std::optional<data::Sampler> validation;
  std::string fingerprint;
};
/// Local. Throws Error{bad_input} for files that do not hold what the job needs.
Samplers open_data(const Job&);

search::PlanRequest search_request(const Job&);
probe::ProbeRequest probe_request(const Job&);
train::Options trainer_options(const Job&, int threads);

/// A run that is continued must be the same run: other samples or another model would make its loss curve a lie. Throws Error{bad_input}.
void require_same_run(const Job&, const std::string& data_fingerprint, const checkpoint::Loaded& saved);

}  // namespace flotilla::app
