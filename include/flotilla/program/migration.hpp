#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/rank_locations.hpp"

/// How training state goes from the ranks of one plan to those of another, straight from old owners to new ones. docs/design/replanning.md.
namespace flotilla::program {

/// Which numbers of an element are handed over.
enum class Carried : std::uint8_t {
  state,       ///< fp32 parameter and both moments
  parameters,  ///< fp32 parameter
  moments,     ///< both, for a rank that has the parameter or gets it elsewhere
  weights,     ///< the copy in half precision, for a rank whose fp32 parameters others keep; it stands as fp32 where it arrives
};
/// Of one element.
constexpr Bytes size_of(Carried carried) {
  switch (carried) {
    case Carried::state: return {3 * 4};
    case Carried::parameters: return {4};
    case Carried::moments: return {2 * 4};
    case Carried::weights: return {2};
  }
  return {};
}

/// Elements of one tensor that lie `outer` x `inner` in the shards of both ends: element (o, i) is at from_offset + o * from_stride + i of
/// the old shard and at to_offset + o * to_stride + i of the new one (plan::Shard, row-major). Where the optimizer is sharded, an end
/// may be one of the rank's pieces (optimizer_shards.hpp) in place of its shard.
struct ElementRun {
  int tensor = -1;  ///< index into model::tensors
  std::int64_t outer = 1, inner = 0;
  std::int64_t from_offset = 0, from_stride = 0;
  std::int64_t to_offset = 0, to_stride = 0;
  int from_piece = -1, to_piece = -1;  ///< -1: the shard
  Carried carried = Carried::state;
  bool operator==(const ElementRun&) const = default;
  std::int64_t elements() const { return outer * inner; }
  Bytes size() const { return elements() * size_of(carried); }
};

/// What one rank hands to another, or keeps (`from` == `to`). Runs of weights come last, so that 4 bytes of one number stay together in
/// messages of a multiple of 4.
struct StateTransfer {
  Rank from, to;
  std::vector<ElementRun> runs;
  bool operator==(const StateTransfer&) const = default;
  bool stays() const { return from == to; }
  std::int64_t elements() const;
  Bytes size() const;
};

/// What is kept of a parameter between two steps: fp32 weight and AdamW's two moments.
inline constexpr Bytes kept_per_parameter{3 * 4};

/// One list for all ranks; each does its part of it in this order. The order is a total one, so ranks that start their messages in it and
/// end them in any wait for each other in no circle, however few they have in flight. It goes in rounds in which every rank sends to one
/// and receives from one.
struct Migration {
  std::vector<StateTransfer> transfers;
  /// By rank, once everything has come: from its new state to its new state, what stands there twice. Where parameters stand in a shard and
  /// apart in a share of it, one of the two is filled by a transfer and the other from it.
  std::vector<StateTransfer> within;
  bool operator==(const Migration&) const = default;
  /// Over the network, of all ranks together.
  Bytes moved() const;
};

/// From plan to plan of the same model, both bound to ranks of one job (so one rank number means one device). Every number of the new state
/// comes from exactly one place: from the rank itself where it holds it already, else from one that does: of its own node where there is
/// one, else of its zone, and of equals from the one that has the least to send so far. So moved() is the least that the two plans
/// allow: what ranks need and do not hold. A rank that keeps but a share of a tensor's optimizer needs the moments of that share and the
/// parameters of all of its shard; in half precision, the fp32 parameters of its share and the weights of the rest, in half precision.
/// Pure. Throws Error{bad_input} where the models differ. Plans that share the optimizer out divide it as the ranks are placed.
Migration migrate(const plan::Plan& from, const plan::Plan& to, const RankLocations& placement = {});

/// A rank cuts what it sends into messages of so many bytes and has so many of them in flight, each way.
inline constexpr Bytes migration_message{1 << 20};
inline constexpr int migration_window = 4;
/// Peak of the move on a rank that held `old_arena` (0: it had no work) and will hold `new_arena`: both live until everything has moved.
constexpr Bytes migration_peak(Bytes old_arena, Bytes new_arena) {
  return old_arena + new_arena + Bytes{2 * migration_window * migration_message.count};
}

}  // namespace flotilla::program
