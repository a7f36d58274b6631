#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {

/// From device to device: all but through the hosts' memory.
inline constexpr std::array<Transport, transport_count - 1> device_transports{Transport::nccl, Transport::device_mpi};

/// "the hosts' memory", "NCCL", "MPI on device memory".
std::string_view in_words(Transport);

/// Whether the transport joins every two of these devices, which are GPUs: by the link of their hosts or zones, where that was measured;
/// else where it was measured between other places of that level and none of these was refused. Not a group with all members of one that
/// was refused as a whole. Always through hosts. `by_library`: a group whose all-reduces are the library's own, which were proved apart.
bool joins(const Profile&, Transport, const std::vector<Rank>& members, bool by_library = false);

/// The profile as a job sees it that wants this transport between GPUs: without what is known of the others, but for the hosts' memory.
Profile wanting(Profile, Transport);

/// Seconds of an exchange over each transport that joins all who take part; through hosts always, but where nothing is exchanged.
using TransportSeconds = std::array<std::optional<Seconds>, transport_count>;

/// The wanted transport where it joins them, else the one that takes least.
Transport choose_transport(const TransportSeconds&, std::optional<Transport> wanted);

/// The profile as it is for devices that exchange by the transport alone: its links, those that are stated, and no copies. Not for
/// Transport::host.
Profile over(const Profile&, Transport);

}  // namespace flotilla::cluster
