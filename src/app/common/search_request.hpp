#pragma once
#include "app/common/job.hpp"
#include "flotilla/search/planner.hpp"

/// What a job says, in the terms of the rooms that do it.
namespace flotilla::app {

search::PlanRequest search_request(const Job&, int length, int global_batch);

}  // namespace flotilla::app
