#include "app/common/binding.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/allocate.hpp"
#include "flotilla/plan/bind.hpp"

namespace flotilla::app {
namespace {

bool is_bound(const plan::Plan& plan) { return !plan.stages.front().replicas.front().devices.empty(); }

template <class Each>
void for_replicas(plan::Plan& plan, Each each) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) each(replica);
}

/// Whether an unbound plan finds its types on the profile's devices, dealt in order.
bool can_deal(plan::Plan plan, const cluster::Profile& profile) {
  if (plan::rank_count(plan) > static_cast<int>(profile.devices.size())) return false;
  plan::deal_ranks(plan);
  bool same = true;
  for_replicas(plan, [&](const plan::Replica& replica) {
    for (Rank rank : replica.devices)
      same = same && (replica.device_type.empty() || replica.device_type == profile.devices[rank.index()].type);
  });
  return same;
}

/// A plan that names no type means the only one there is.
void name_types(plan::Plan& plan, const cluster::Profile& profile, const std::string& source) {
  for_replicas(plan, [&](plan::Replica& replica) {
    if (!replica.device_type.empty()) return;
    FLOTILLA_REQUIRE(!profile.device_types.empty(), ErrorKind::bad_input, source,
                     ": a replica names no device_type; write one there, or give the profile of its devices: --profiles FILE");
    FLOTILLA_REQUIRE(profile.device_types.size() == 1, ErrorKind::bad_input, source, ": a replica names no device_type, and there are ",
                     profile.device_types.size(), " to choose from; write one");
    replica.device_type = profile.device_types.front().name;
  });
}

BoundPlan invented(plan::Plan plan, cluster::Profile profile, const std::string& source) {
  const bool was_bound = is_bound(plan);
  for_replicas(plan, [](plan::Replica& replica) { replica.devices.clear(); });
  name_types(plan, profile, source);
  auto allocation = plan::allocate(plan, profile);
  profile.devices = std::move(allocation.devices);
  return {
      std::move(allocation.plan), std::move(profile),
      was_bound ? text(source, ": the plan names ranks, the profile lists no devices; forecast on devices of the same types instead") : ""};
}

}  // namespace

BoundPlan subject_of(plan::Plan plan, cluster::Profile profile, const std::string& source) {
  const auto ranks = static_cast<int>(profile.devices.size());
  if (ranks == 0 || (!is_bound(plan) && !can_deal(plan, profile))) return invented(std::move(plan), std::move(profile), source);
  FLOTILLA_REQUIRE(plan::rank_count(plan) <= ranks, ErrorKind::bad_input, source, ": the plan is bound to ", plan::rank_count(plan),
                   " ranks, the profile lists ", ranks, " devices; give the profile of those ranks, or take \"devices\" out of the plan");
  auto on_ranks = plan::bound(std::move(plan), profile, ranks, source);
  return {std::move(on_ranks), std::move(profile), ""};
}

}  // namespace flotilla::app
