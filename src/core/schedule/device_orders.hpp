#pragma once
#include <vector>

#include "flotilla/schedule/pipeline_schedule.hpp"
#include "list_scheduler.hpp"

namespace flotilla::schedule {

/// By own stage and replica: the listed passes, and the receives between them.
std::vector<std::vector<DeviceOrder>> device_orders(const PipelineShape&, ListSchedule);

}  // namespace flotilla::schedule
