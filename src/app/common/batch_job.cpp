#include "app/common/batch_job.hpp"

#include <chrono>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/slurm/allocation.hpp"
#include "flotilla/slurm/run_program.hpp"
#include "flotilla/slurm/time.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds squeue_patience{10};

Seconds since_1970() { return {std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()}; }

}  // namespace

BatchJob batch_job(const Job& job, std::span<const std::string> environment) {
  BatchJob found;
  if (const auto allocation = slurm::read_allocation(environment)) {
    found.id = allocation->job;
    found.zone = slurm::partition_here(*allocation);
    found.allocation = *allocation;
    if (allocation->ends_at) found.ends = now() + (Seconds{*allocation->ends_at} - since_1970());
  }
  if (!job.run.zone.empty()) found.zone = job.run.zone;
  if (job.run.time_limit.value > 0) found.ends = now() + job.run.time_limit;
  return found;
}

std::optional<Seconds> time_left_of_job(std::span<const std::string> environment) {
  const auto value = [&](const std::string& name) {
    for (const auto& entry : environment)
      if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    return std::string{};
  };
  const auto first = [&] {  // one process asks for all: slurmctld is everybody's
    for (const char* rank : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"})
      if (!value(rank).empty()) return value(rank) == "0";
    return false;
  };
  try {
    const auto allocation = slurm::read_allocation(environment);
    if (!allocation || allocation->ends_at || !value("FLOTILLA_RUN_TIME_LIMIT").empty() || !first()) return std::nullopt;
    return slurm::shortest_time(
        slurm::answer_of({"squeue", "--noheader", text("--jobs=", allocation->job), "--format=%L"}, squeue_patience));
  } catch (const Error&) {
    return std::nullopt;  // without squeue the run ends by its signals alone
  }
}

BatchJob batch_job(const Job& job) { return batch_job(job, options::environment()); }

}  // namespace flotilla::app
