#include "app/common/profile_measurement.hpp"

#include "app/common/batch_job.hpp"
#include "app/common/on_all_ranks.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/session/device_choice.hpp"

namespace flotilla::app {

flotilla::probe::ProbeRequest probe_request(const Job& job) {
  flotilla::probe::ProbeRequest request;
  request.model = job.architecture.fully_trained();  // a profile is of the shape
  request.length = job.training.length;
  if (job.training.precision) request.precisions = {*job.training.precision};
  request.threads = job.run.threads;
  request.memory_limit = job.device.memory;
  request.largest_microbatch = job.plan.microbatch > 0 ? job.plan.microbatch : job.training.global_batch;
  request.budget = job.probe.budget;
  request.deadline = job.comm.deadline;
  request.transport = job.comm.transport;
  return request;
}

cluster::Profile measure_profile(const comm::World& world, const Job& job, const std::function<void(const std::string&)>& progress) {
  auto request = probe_request(job);
  if (job.plan.tensor > 0) request.tensor_parallel = {job.plan.tensor};
  if (job.plan.microbatch > 0) request.sequences = {job.plan.microbatch};
  request.zone = comm::agree_on(
      world, "reading the batch system's variables", [&] { return batch_job(job).zone; }, ranks_start_deadline);
  request.device = session::choose_device(world, job.device.kind, session::how_to_compute(job), job.comm.deadline);
  if (!job.training.precision) request.precisions = {session::precision_of_devices(world, request.device, job.comm.deadline)};
  request.progress = progress;
  const auto here = flotilla::probe::discover(world, request);
  if (world.rank() == Rank{0} && !here.idle_threads.empty()) log::warning(here.idle_threads);
  return flotilla::probe::measure(world, request, here);
}

}  // namespace flotilla::app
