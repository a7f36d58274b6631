#include "app/common/search_request.hpp"

namespace flotilla::app {

search::PlanRequest search_request(const Job& job, int length, int global_batch) {
  search::PlanRequest request;
  request.model = job.architecture;
  request.length = length;
  request.global_batch = global_batch;
  request.precision = job.training.precision.value();
  request.constraints = constraints_of(job.plan);
  if (job.device.memory.count > 0) request.memory_limit = job.device.memory;
  return request;
}

}  // namespace flotilla::app
