#pragma once
#include <vector>

#include "flotilla/program/program.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

/// The other end of a peer slot: which kind of rank, and by which of its slots it knows us.
struct PeerKind {
  int kind = -1;
  int slot = -1;
  bool operator==(const PeerKind&) const = default;
};

/// Ranks with equal timelines. `peers` and `groups` are by slot; slots that name the same rank are folded into the first of them.
struct EquivalentRanks {
  int rank_class = -1;
  std::vector<Rank> ranks;
  std::vector<int> slots;       ///< peer slot -> first slot that names the same rank
  std::vector<PeerKind> peers;  ///< by folded slot
  std::vector<int> groups;      ///< group slot -> GroupKind
  int host = -1;                ///< PlaceKind of hosts on which most of its ranks stand; -1 where nothing moves between hosts
  int uplink = -1;              ///< PlaceKind of uplinks behind which most of its ranks stand; -1: none, or nothing passes one
};

/// Groups whose collectives take equal times at equal moments. A collective starts when one rank of every (kind, slot) has joined.
struct GroupKind {
  int group = -1;  ///< index into Program::groups of the first such group
  struct Member {
    int kind = -1, slot = -1;
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;
};

/// Hosts, or uplinks, with equally many ranks of every kind.
struct PlaceKind {
  std::vector<Rank> ranks;  ///< of the first such place
  std::vector<int> shares;  ///< ranks on it by kind
};

struct RankPartition {
  std::vector<EquivalentRanks> kinds;  ///< in order of their first rank
  std::vector<GroupKind> groups;
  std::vector<int> group_kinds;           ///< by Program::groups
  std::vector<PlaceKind> hosts, uplinks;  ///< that kinds name
};

/// The coarsest partition of the working ranks in which ranks of one kind have the same class, and slot by slot the same kind of peer over
/// the same path, and the same kind of group. By induction over time such ranks do the same thing at the same moments, so one of each
/// stands for all, exactly. (Colour refinement; Paige and Tarjan 1987 name the problem.)
///
/// Where messages leave hosts, ranks of one kind also stand on hosts of one kind, since they share the hosts' cards with what else stands
/// there; unless that would more than double the kinds. Then a kind's commonest host stands for all of its hosts. Uplinks likewise.
RankPartition partition_ranks(const program::Program&, const InstructionCost&);

}  // namespace flotilla::simulate
