#pragma once
#include "flotilla/checkpoint/state.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/program/migration.hpp"

namespace flotilla::train {

/// What a move cost on this rank.
struct MoveReport {
  Bytes sent, received;
  Seconds took;
};

/// Carries out a migration between plans bound to the ranks of `world`: fills every part of `to` from the `from` of the ranks that hold
/// it. A rank without work before or after gives a state without parts; the two states share no memory. Parameters and moments in fp32,
/// bit by bit; what is computed from them is Trainer::adopt's. Every rank calls it, one thread each; nobody changes a state meanwhile.
/// Beside the states it holds at most what program::migration_peak() says.
/// Throws Error{communication} naming the peer when nothing moves for `deadline`; `from` is as it was then, `to` undefined. Ranks may end
/// differently, so agree afterwards.
MoveReport move_state(const comm::World& world, const program::Migration&, const checkpoint::LocalState& from,
                      const checkpoint::LocalState& to, Seconds deadline);

}  // namespace flotilla::train
