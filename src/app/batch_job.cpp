#include "app/batch_job.hpp"

#include <chrono>

#include "flotilla/base/clock.hpp"
#include "flotilla/slurm/allocation.hpp"

namespace flotilla::app {
namespace {

Seconds since_1970() { return {std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()}; }

}  // namespace

BatchJob batch_job(const Job& job, std::span<const std::string> environment) {
  BatchJob found;
  if (const auto allocation = slurm::read_allocation(environment)) {
    found.id = allocation->job;
    found.zone = slurm::partition_here(*allocation);
    if (allocation->ends_at) found.ends = now() + (Seconds{*allocation->ends_at} - since_1970());
  }
  if (!job.run.zone.empty()) found.zone = job.run.zone;
  if (job.run.time_limit.value > 0) found.ends = now() + job.run.time_limit;
  return found;
}

BatchJob batch_job(const Job& job) { return batch_job(job, options::environment()); }

}  // namespace flotilla::app
