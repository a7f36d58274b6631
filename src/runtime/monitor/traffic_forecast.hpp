#pragma once
#include <array>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::monitor {

/// What one instruction of a rank has on the network, and the seconds that it is forecast to take: of a full microbatch (or once a step),
/// and of the last one.
struct InstructionTraffic {
  int peer = -1;   ///< sends: the rank of the program that they go to
  int group = -1;  ///< collectives: index into Program::groups
  std::array<Seconds, 2> forecast{};
};

/// By instruction of the rank's class; instructions that put nothing on the network, or on links that the profile does not know, have
/// neither peer nor group, nor have the scalars of the step. `active_ranks`: the job's ranks, between which the profile's links are, by
/// rank of the program. Groups that meet on the same hosts are forecast as if all of a kind were at work at once.
std::vector<InstructionTraffic> traffic_of_instructions(const program::Program&, Rank me, const cluster::Profile&,
                                                        const std::vector<Rank>& active_ranks);

}  // namespace flotilla::monitor
