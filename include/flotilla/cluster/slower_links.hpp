#pragma once
#include <span>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {

/// What joins two ranks' devices has become slower: everything over it takes `factor` times as long.
struct SlowPair {
  Rank a, b;
  double factor = 1;
  bool operator==(const SlowPair&) const = default;
};

/// The profile with the links of these pairs slower, both ways; between GPUs those of every transport. A link is what the profile knows one
/// by: two hosts of a zone, two zones, or one host; so all ranks there have it. Pairs that mean one link count once, with the largest
/// factor; factors of at most 1 change nothing. Other pairs keep their links; on more than 64 hosts those that were not measured count as
/// the slowest of their level as ever, which may be one of these. Throws Error{bad_input} for a rank or a link that the profile does not
/// have.
Profile with_slower_links(Profile, std::span<const SlowPair>);

}  // namespace flotilla::cluster
