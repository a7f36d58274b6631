#include "app/train/training_setup.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"

namespace flotilla::app {
search::Request search_request(const Job& job) {
  search::Request request;
  request.model = job.architecture;
  request.length = job.training.length;
  request.global_batch = job.training.global_batch;
  request.precision = job.training.precision;
  const auto given = [](int value) { return value > 0 ? std::optional{value} : std::nullopt; };
  request.fixed = {given(job.plan.data),       given(job.plan.pipeline), given(job.plan.tensor), given(job.plan.microbatch),
                   job.plan.schedule,          job.plan.recompute,       job.plan.cuts,          given(job.plan.chunks),
                   job.plan.sequence_parallel, job.plan.shard_optimizer};
  if (job.device.memory.count > 0) request.memory_limit = job.device.memory;
  return request;
}

probe::ProbeRequest probe_request(const Job& job) {
  probe::ProbeRequest request;
  request.model = job.architecture;
  request.length = job.training.length;
  request.precisions = {job.training.precision};
  request.threads = job.run.threads;
  request.memory_limit = job.device.memory;
  request.budget = job.probe.budget;
  request.deadline = job.comm.deadline;
  return request;
}

}  // namespace flotilla::app
