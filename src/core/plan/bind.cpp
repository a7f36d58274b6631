#include "flotilla/plan/bind.hpp"

#include "flotilla/base/error.hpp"

namespace flotilla::plan {

void deal_ranks(Plan& plan) {
  int next = 0;
  const auto own = static_cast<std::size_t>(own_stages(plan));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (s >= own) {
      plan.stages[s].replicas = plan.stages[s % own].replicas;
      continue;
    }
    for (auto& replica : plan.stages[s].replicas)
      while (static_cast<int>(replica.devices.size()) < replica.tensor_parallel) replica.devices.emplace_back(next++);
  }
}

Plan bound(Plan plan, const cluster::Profile& profile, int ranks, const std::string& source) {
  const int needed = rank_count(plan);
  FLOTILLA_REQUIRE(needed <= ranks, ErrorKind::no_plan, source, ": the plan needs ", needed, " ranks, the job has ", ranks, "; start ",
                   needed, " ranks or give another plan");
  deal_ranks(plan);
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      for (Rank rank : replica.devices)
        FLOTILLA_REQUIRE(rank.value < ranks, ErrorKind::bad_input, source, ": device rank ", rank, " of the plan; the job has ranks 0 to ",
                         ranks - 1);
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) {
      const Rank rank = replica.devices.front();
      const auto& type = profile.devices.at(rank.index()).type;
      FLOTILLA_REQUIRE(replica.device_type.empty() || replica.device_type == type, ErrorKind::bad_input, source, ": device_type '",
                       replica.device_type, "' of the plan; rank ", rank, " is a '", type, "'; write that, or \"\" for any");
      replica.device_type = type;
    }
  return plan;
}

}  // namespace flotilla::plan
