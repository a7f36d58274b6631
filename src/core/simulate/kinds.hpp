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
struct Kind {
  int rank_class = -1;
  std::vector<Rank> ranks;
  std::vector<int> slots;       ///< peer slot -> first slot that names the same rank
  std::vector<PeerKind> peers;  ///< by folded slot
  std::vector<int> groups;      ///< group slot -> GroupKind
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

struct Kinds {
  std::vector<Kind> kinds;  ///< in order of their first rank
  std::vector<GroupKind> groups;
};

/// The coarsest partition of the working ranks in which ranks of one kind have the same class, and slot by slot the same kind of peer over
/// the same path, and the same kind of group. By induction over time such ranks do the same thing at the same moments, so one of each
/// stands for all, exactly. (Colour refinement; Paige and Tarjan 1987 name the problem.)
Kinds find_kinds(const program::Program&, const InstructionCost&);

}  // namespace flotilla::simulate
