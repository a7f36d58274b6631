#pragma once
#include <compare>
#include <string>
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::program {

/// What makes two ranks run the same instructions: all that lowering looks at. One class is built per kind.
struct RankKind {
  int stage = 0;
  std::string device_type;
  int tensor_parallel = 1;
  int sequences = 0;                           ///< of the step, handled by the replica
  int microbatch = 1;                          ///< sequences in a full microbatch
  int heads = 0, columns = 0, vocabulary = 0;  ///< local units
  int activation_receivers = 0;                ///< ranks of the next stage that take a copy of our activation
  int gradient_receivers = 0;                  ///< ranks of the previous stage that take a copy of our gradient
  int replicas = 1;                            ///< members of the data group
  int tied_members = 1;                        ///< members of the group that sums the word table's gradient over both of its stages
  auto operator<=>(const RankKind&) const = default;
};

/// Where each neighbour and group sits in RankBinding::peers and ::groups; -1 and empty where there is none.
struct Slots {
  int activation_from = -1, gradient_from = -1;
  std::vector<int> activation_to, gradient_to;
  int world = 0, tensor = -1, data = -1, tied = -1;
};
Slots slots_of(const RankKind&, bool first_stage, bool last_stage, bool training);

/// How many members of the neighbouring stage (degree `theirs`) take their copy from member `index` of a group of degree `ours`: copies
/// are whole on every member, so theirs t is served by ours t mod `ours`, and these are index, index + ours, ...
int served_by(int index, int ours, int theirs);

}  // namespace flotilla::program
