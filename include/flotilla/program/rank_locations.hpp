#pragma once
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/cluster/cluster.hpp"

namespace flotilla::program {

/// Where ranks stand, as lowering sees it: numbers of nodes and zones, by rank. Ranks beyond the list stand nobody knows where; sums among
/// them are direct.
struct RankLocations {
  std::vector<int> node, zone;
  bool operator==(const RankLocations&) const = default;

  bool knows(Rank rank) const { return rank.valid() && rank.index() < node.size(); }
};

/// Of devices listed by rank: a node is a host's name, a zone its zone's.
RankLocations placement_of(const std::vector<cluster::Device>& devices);
/// Of some of the ranks, numbered anew in the order given.
RankLocations placement_of(const RankLocations& all, const std::vector<Rank>& ranks);

/// Members of a group that stand together, level by level: nodes inside, then zones. By level, the number of the subgroup that each member
/// is in, numbered by the first of them; levels that would change nothing are left out. Empty: all sum at once.
using SubgroupLevels = std::vector<std::vector<int>>;

/// Subgroups of groups whose i-th members belong to the same replica, so that all of them add in one order: two replicas are in one
/// subgroup where their members are in every one of the groups. Each group lists a member for each replica.
SubgroupLevels subgroups_of(const std::vector<std::vector<Rank>>& groups, const RankLocations& placement);

}  // namespace flotilla::program
