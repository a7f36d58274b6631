#pragma once
#include <memory>
#include <vector>

#include "flotilla/schedule/schedule.hpp"
#include "placement.hpp"

namespace flotilla::search::even {

/// Everything of a plan but where its layers are cut.
struct Configuration {
  std::shared_ptr<const Placement> placement;
  int microbatch = 1;
  plan::ScheduleKind schedule = schedule::usual_schedule();
  plan::Recompute recompute = plan::Recompute::none;

  int most_sequences() const;
  int microbatches(int replica) const;
  /// Microbatches that a device of a stage keeps at a time at least, for the replica's number of them.
  int in_flight(int stage, int replica) const;
};

/// That are searched where none is fixed: of whole backward passes, with one stage a device.
std::vector<plan::ScheduleKind> searched_schedules();

/// All configurations that the request allows on the cluster, few devices first.
std::vector<Configuration> configurations(const Problem&);

/// The plan of a configuration, bound to its devices, `cuts` being those of cuts_of_devices(constraints).
plan::Plan make_plan(const Problem&, const Configuration&, const std::vector<int>& cuts);

}  // namespace flotilla::search::even
