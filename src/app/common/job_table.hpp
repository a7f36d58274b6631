#pragma once
#include "app/common/job.hpp"

namespace flotilla::app {

options::Choice<Precision> precisions();

/// How a plan runs, in a section that is open: plan.schedule, plan.chunks, plan.sequence-parallel, plan.shard-optimizer.
void add_manner(options::Table&, std::optional<plan::ScheduleKind>& schedule, int& chunks, std::optional<bool>& sequence_parallel,
                std::optional<bool>& shard_optimizer);

/// The options of commands that print something: -o, --format, --log-level.
void add_output(options::Table&, Job::Output&);

}  // namespace flotilla::app
