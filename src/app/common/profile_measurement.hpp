#pragma once
#include <functional>
#include <string>

#include "app/common/job.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/probe/probe.hpp"

namespace flotilla::app {

/// What is to be measured for a job: its model, length, precision and limits. The rank's device and zone are not in it.
flotilla::probe::ProbeRequest probe_request(const Job&);

/// Devices and links of these ranks for the job's model, length and precision, on what its training would compute on; the same on every
/// rank. `progress` is told what is measured next, on the ranks that give one. Collective, every rank with the same job. Throws as
/// probe::measure().
cluster::Profile measure_profile(const comm::World&, const Job&, const std::function<void(const std::string&)>& progress);

}  // namespace flotilla::app
