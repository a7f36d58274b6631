#pragma once
#include <optional>
#include <string>

#include "app/common/job.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/data/sampler.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/search/search.hpp"
#include "flotilla/train/options.hpp"

/// What a job says, in the terms of the rooms that do it.
namespace flotilla::app {

search::Request search_request(const Job&);
probe::ProbeRequest probe_request(const Job&);

}  // namespace flotilla::app
