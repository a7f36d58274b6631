#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/placement.hpp"

/// How training state goes from the ranks of one plan to those of another, straight from old owners to new ones. docs/design/replanning.md.
namespace flotilla::program {

/// Elements of one tensor that lie `outer` x `inner` in the shards of both ends: element (o, i) is at from_offset + o * from_stride + i of
/// the old shard and at to_offset + o * to_stride + i of the new one (plan::Shard, row-major). Where the optimizer is shared out, an end
/// may be one of the rank's pieces (share_pieces.hpp) in place of its shard.
struct Run {
  int tensor = -1;  ///< index into model::tensors
  std::int64_t outer = 1, inner = 0;
  std::int64_t from_offset = 0, from_stride = 0;
  std::int64_t to_offset = 0, to_stride = 0;
  int from_piece = -1, to_piece = -1;  ///< -1: the shard
  bool parameters_only = false;        ///< not the moments: for a rank whose moments others keep
  bool operator==(const Run&) const = default;
  std::int64_t elements() const { return outer * inner; }
  /// Numbers that are handed over for an element.
  std::int64_t kinds() const { return parameters_only ? 1 : 3; }
};

/// What one rank hands to another, or keeps (`from` == `to`).
struct Transfer {
  Rank from, to;
  std::vector<Run> runs;
  bool operator==(const Transfer&) const = default;
  bool stays() const { return from == to; }
  std::int64_t elements() const;
  /// Numbers handed over, parameters and moments each one.
  std::int64_t numbers() const;
  Bytes size() const { return {4 * numbers()}; }
};

/// What is kept of a parameter between two steps: fp32 weight and AdamW's two moments.
inline constexpr Bytes kept_per_parameter{3 * 4};

/// One list for all ranks; each does its part of it in this order. The order is a total one, so ranks that start their messages in it and
/// end them in any wait for each other in no circle, however few they have in flight. It goes in rounds in which every rank sends to one
/// and receives from one.
struct Migration {
  std::vector<Transfer> transfers;
  bool operator==(const Migration&) const = default;
  /// Over the network, of all ranks together.
  Bytes moved() const;
};

/// From plan to plan of the same model, both bound to ranks of one job (so one rank number means one device). Every element of every new
/// shard comes from exactly one place: from the rank itself where it holds it already, else from a replica that does, one of its own zone
/// where there is one, and from different ones in turn. So moved() is the least that the two plans allow. Pure. Throws Error{bad_input}
/// where the models differ. Plans that share the optimizer out divide it as the ranks are placed; a rank that keeps but a share of a
/// tensor's state gets the parameters of all of its shard beside it. In bf16 these come from those who keep them in fp32.
Migration migrate(const plan::Plan& from, const plan::Plan& to, const Placement& placement = {});

/// A rank cuts what it sends into messages of so many bytes and has so many of them in flight, each way.
inline constexpr Bytes migration_message{1 << 20};
inline constexpr int migration_window = 4;
/// Peak of the move on a rank that held `old_arena` (0: it had no work) and will hold `new_arena`: both live until everything has moved.
constexpr Bytes migration_peak(Bytes old_arena, Bytes new_arena) {
  return old_arena + new_arena + Bytes{2 * migration_window * migration_message.count};
}

}  // namespace flotilla::program
