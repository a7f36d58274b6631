#pragma once
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/journal/metrics.hpp"

namespace flotilla::session {

/// The devices of these ranks by type and zone, in the order they are met, each host with the first of its groups.
std::vector<journal::InventoryEntry> device_inventory(const cluster::Profile&, const std::vector<Rank>&);

}  // namespace flotilla::session
