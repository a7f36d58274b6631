#include "places.hpp"

#include <algorithm>

namespace flotilla::search::economics {

std::vector<PlaceUse> uses_of(const Pool& pool, const cluster::Profile& profile, const plan::Plan& plan) {
  std::vector<PlaceUse> uses;
  const auto at = [&](const std::string& type, const std::string& zone) {
    return std::ranges::find_if(uses, [&](const PlaceUse& use) { return use.device_type == type && use.zone == zone; });
  };
  for (const PoolEntry& entry : pool) {
    if (entry.count == 0) continue;
    auto use = at(entry.device_type, entry.zone);
    if (use == uses.end()) use = uses.insert(use, {entry.device_type, entry.zone, 0, 0, 1});
    const auto* type = cluster::find_type(profile, entry.device_type);
    const int own = type == nullptr ? 1 : type->per_node;
    use->there += entry.count;
    use->per_node = std::max(use->per_node, entry.per_node > 0 ? entry.per_node : own);
  }
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const auto& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      if (const auto use = at(replica.device_type, replica.zone); use != uses.end()) use->used += replica.tensor_parallel;
  return uses;
}

}  // namespace flotilla::search::economics
