#pragma once
#include <vector>

#include "flotilla/schedule/list_scheduler.hpp"
#include "flotilla/schedule/pipeline_schedule.hpp"

namespace flotilla::schedule {

/// By own stage and replica: the listed passes, and the receives between them.
std::vector<std::vector<DeviceOrder>> device_orders(const PipelineShape&, ListSchedule);

}  // namespace flotilla::schedule
