#pragma once
#include "flotilla/schedule/schedule.hpp"

/// One a file, and one a plan::ScheduleKind: schedule_of() chooses among these.
namespace flotilla::schedule {

const Schedule& gpipe();
const Schedule& one_f_one_b();
const Schedule& interleaved();
const Schedule& zero_bubble();

}  // namespace flotilla::schedule
