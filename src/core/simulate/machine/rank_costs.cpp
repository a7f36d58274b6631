#include "rank_costs.hpp"

#include <algorithm>
#include <utility>

#include "flotilla/base/error.hpp"
#include "instruction_kinds.hpp"
#include "network/oversubscription.hpp"

namespace flotilla::simulate {
namespace {

using program::Instruction;
using program::Op;

/// Activations and refreshed weights travel in the plan's precision, gradients in fp32, scalars in fp64 (program.hpp).
Bytes element_of(const program::Program& program, const Instruction& instruction) {
  if (instruction.op == Op::reduce_scalars) return {8};
  if (instruction.op == Op::all_gather_shards) return element_size(program.plan.precision);
  const bool sums = instruction.op == Op::all_reduce || instruction.op == Op::reduce_scatter;
  return sums && instruction.per_microbatch ? element_size(program.plan.precision) : Bytes{4};
}

struct CollectiveKey {
  Op op;
  const program::Group* group;
  Bytes bytes, element;
  Flows flows;
  bool operator==(const CollectiveKey&) const = default;
};

class RankCosting {
 public:
  RankCosting(const program::Program& program, const RankPartition& kinds, std::size_t kind, const Wires& wires,
              const InstructionCost& cost)
      : program_{program},
        index_{static_cast<int>(kind)},
        kind_{kinds.kinds[kind]},
        class_{program.classes[static_cast<std::size_t>(kind_.rank_class)]},
        self_{kind_.ranks.front()},
        wires_{wires},
        cost_{cost} {}

  RankCosts run() const {
    RankCosts found;
    found.costs.reserve(class_.instructions.size());
    found.wire_seconds.resize(class_.instructions.size());
    for (std::size_t s = 0; s < class_.instructions.size(); ++s) {
      const Instruction& instruction = class_.instructions[s];
      const bool short_last = instruction.per_microbatch && class_.microbatches > 0 && class_.last_sequences != class_.shape.sequences;
      const Cost full = of(instruction, class_.shape.sequences, own_flows(instruction));
      const Cost last = short_last ? of(instruction, class_.last_sequences, own_flows(instruction)) : full;
      for (const Cost& c : {full, last}) require_time(instruction, c.time);
      found.costs.push_back({full, last});
      if (user_of(instruction) < 0 || !wires_.contended(user_of(instruction))) continue;
      found.wire_seconds[s][0] = wire_seconds(instruction, class_.shape.sequences, full.time);
      found.wire_seconds[s][1] = short_last ? wire_seconds(instruction, class_.last_sequences, last.time) : found.wire_seconds[s][0];
    }
    return found;
  }

 private:
  /// A profile may hold a rate of 1e-300 bytes a second: a number, but what follows from it is none.
  static void require_time(const Instruction& instruction, Seconds time) {
    constexpr Seconds most{1e12};
    FLOTILLA_REQUIRE(time.value >= 0 && time < most, ErrorKind::bad_input, "by the profile's figures \"", instruction.name, "\" takes ",
                     time.value, " seconds; some rate or time in it is absurd, measure it again");
  }

  Cost of(const Instruction& instruction, int sequences, const Flows& flows) const {
    const Bytes bytes = instruction.size(instruction.per_microbatch ? sequences : 0);
    if (is_message(instruction.op)) {
      const Rank peer = peer_of(instruction);
      if (instruction.op == Op::receive) return {};  // its sender's side is what it takes
      return cost_.message(self_, peer, bytes, flows);
    }
    if (is_collective(instruction.op))
      return of_collective({instruction.op, &group_of(instruction), bytes, element_of(program_, instruction), flows});
    return cost_.compute(program_, class_, instruction, sequences);
  }

  /// Most collectives of a class are the same ones, layer by layer.
  Cost of_collective(const CollectiveKey& wanted) const {
    const auto found = std::ranges::find(collectives_, wanted, &std::pair<CollectiveKey, Cost>::first);
    if (found != collectives_.end()) return found->second;
    const Cost cost = cost_.collective(wanted.op, *wanted.group, wanted.bytes, wanted.element, wanted.flows);
    collectives_.emplace_back(wanted, cost);
    return cost;
  }

  /// Of its time what its cards or uplinks are busy.
  double wire_seconds(const Instruction& instruction, int sequences, Seconds all) const {
    const int user = user_of(instruction);
    const double alone = card_seconds([&](const Flows& flows) { return of(instruction, sequences, flows).time; }, wires_.lanes(user));
    return std::clamp(alone * wires_.slowdown(user), 0.0, all.value);
  }

  Flows own_flows(const Instruction& instruction) const { return user_of(instruction) < 0 ? Flows{} : wires_.flows(user_of(instruction)); }

  /// Of wires; -1 for a instruction that moves nothing, or receives.
  int user_of(const Instruction& instruction) const {
    if (instruction.op == Op::send)
      return peer_of(instruction), wires_.stream(index_, kind_.slots[static_cast<std::size_t>(instruction.peer)]);
    if (!is_collective(instruction.op)) return -1;
    return group_of(instruction), wires_.user_of_group(kind_.groups[static_cast<std::size_t>(instruction.group)]);
  }

  Rank peer_of(const Instruction& instruction) const {
    const auto& peers = program_.ranks[self_.index()].peers;
    FLOTILLA_REQUIRE(instruction.peer >= 0 && static_cast<std::size_t>(instruction.peer) < peers.size(), ErrorKind::internal, "\"",
                     instruction.name, "\" of the program names peer slot ", instruction.peer, "; rank ", self_, " has ", peers.size());
    return peers[static_cast<std::size_t>(instruction.peer)];
  }
  const program::Group& group_of(const Instruction& instruction) const {
    const auto& groups = program_.ranks[self_.index()].groups;
    FLOTILLA_REQUIRE(instruction.group >= 0 && static_cast<std::size_t>(instruction.group) < groups.size(), ErrorKind::internal, "\"",
                     instruction.name, "\" of the program names group slot ", instruction.group, "; rank ", self_, " has ", groups.size());
    return program_.groups[static_cast<std::size_t>(groups[static_cast<std::size_t>(instruction.group)])];
  }

  const program::Program& program_;
  const int index_;
  const EquivalentRanks& kind_;
  const program::RankClass& class_;
  const Rank self_;
  const Wires& wires_;
  const InstructionCost& cost_;
  mutable std::vector<std::pair<CollectiveKey, Cost>> collectives_;
};

}  // namespace

RankCosts costs_of_rank_kind(const program::Program& program, const RankPartition& kinds, std::size_t kind, const Wires& wires,
                             const InstructionCost& cost) {
  return RankCosting{program, kinds, kind, wires, cost}.run();
}

}  // namespace flotilla::simulate
