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
  request.nccl = job.comm.transport != Job::Comm::Transport::mpi;
  return request;
}

std::optional<cluster::Transport> wanted_transport(const Job& job) {
  switch (job.comm.transport) {
    case Job::Comm::Transport::nccl: return cluster::Transport::nccl;
    case Job::Comm::Transport::mpi: return cluster::Transport::host;
    case Job::Comm::Transport::automatic: break;
  }
  return std::nullopt;
}

}  // namespace flotilla::app
