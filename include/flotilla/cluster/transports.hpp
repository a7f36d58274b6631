#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {

/// Whether the transport joins every two of these devices, which are GPUs: by the link of their hosts or zones, where that was measured;
/// else where it was measured between other places of that level and none of these was refused. Always through hosts.
bool joins(const Profile&, Transport, const std::vector<Rank>& members);

/// The profile as it is for devices that exchange by the transport alone: its links, and no copies. Not for Transport::host.
Profile over(const Profile&, Transport);

}  // namespace flotilla::cluster
