#include "app/common/components.hpp"

#include <algorithm>

#include "flotilla/base/text.hpp"

namespace flotilla::app {

std::string launch_line(const slurm::SlurmAllocation& job) {
  return text("srun --mpi=pmix --het-group=0-", job.components.size() - 1, " flotilla train JOB");
}

std::optional<std::size_t> component_without_ranks(const slurm::SlurmAllocation& job, std::span<const std::optional<std::size_t>> places) {
  if (!job.heterogeneous() || std::ranges::any_of(places, [](const auto& place) { return !place; })) return std::nullopt;
  for (std::size_t k = 0; k < job.components.size(); ++k)
    if (std::ranges::none_of(places, [k](const auto& place) { return *place == k; })) return k;
  return std::nullopt;
}

}  // namespace flotilla::app
