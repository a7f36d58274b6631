#include "app/train/training_setup.hpp"

namespace flotilla::app {

search::PlanRequest search_request(const Job& job, int length, int global_batch) {
  search::PlanRequest request;
  request.model = job.architecture;
  request.length = length;
  request.global_batch = global_batch;
  request.precision = job.training.precision;
  request.constraints = constraints_of(job.plan);
  if (job.device.memory.count > 0) request.memory_limit = job.device.memory;
  return request;
}

probe::ProbeRequest probe_request(const Job& job) {
  probe::ProbeRequest request;
  request.model = job.architecture;
  request.model.frozen.clear();  // a profile is of the shape
  request.length = job.training.length;
  request.precisions = {job.training.precision};
  request.threads = job.run.threads;
  request.memory_limit = job.device.memory;
  request.budget = job.probe.budget;
  request.deadline = job.comm.deadline;
  request.transport = job.comm.transport;
  return request;
}

}  // namespace flotilla::app
