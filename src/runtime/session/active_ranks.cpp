#include "active_ranks.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::session {

std::vector<Rank> active_ranks_of(const plan::Plan& plan) {
  std::vector<Rank> ranks;
  for (int s = 0; s < plan::own_stages(plan); ++s)  // the others stand on the same devices
    for (const auto& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      ranks.insert(ranks.end(), replica.devices.begin(), replica.devices.end());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string hosts_of(const comm::World& active) {
  std::string hosts;
  for (int r = 0; r < active.size(); ++r)
    if (r == 0 || active.host(Rank{r}) != active.host(Rank{r - 1})) hosts += (hosts.empty() ? "" : ", ") + active.host(Rank{r});
  return hosts;
}

plan::Plan renumbered(plan::Plan plan, const std::vector<Rank>& active) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas)
      for (auto& device : replica.devices) {
        const auto found = std::lower_bound(active.begin(), active.end(), device);
        FLOTILLA_ASSERT(found != active.end() && *found == device, "rank ", device, " of the plan is not in its crew");
        device = Rank{static_cast<int>(found - active.begin())};
      }
  return plan;
}

}  // namespace flotilla::session
