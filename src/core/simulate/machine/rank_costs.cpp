#include "rank_costs.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"
#include "network/oversubscription.hpp"

namespace flotilla::simulate {
namespace {

using program::Collective;
using program::CollectiveKind;
using program::Instruction;
using program::MessageEnd;

class RankCosting {
 public:
  RankCosting(const program::Program& program, const RankPartition& kinds, std::size_t kind, const Wires& wires,
              const InstructionCost& cost, CollectiveCosts& collectives)
      : program_{program},
        index_{static_cast<int>(kind)},
        kind_{kinds.kinds[kind]},
        class_{program.classes[static_cast<std::size_t>(kind_.rank_class)]},
        self_{kind_.ranks.front()},
        wires_{wires},
        cost_{cost},
        collectives_{collectives} {}

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
    const int moved = instruction.per_microbatch ? sequences : 0;
    if (const auto* message = instruction.as<MessageEnd>()) {
      const Rank peer = peer_of(instruction, *message);
      if (!message->sends()) return {};  // its sender's side is what it takes
      return cost_.message(self_, peer, message->size.of(moved), flows);
    }
    if (const auto* collective = instruction.as<Collective>())
      return of_collective({collective->kind, &group_of(instruction, *collective), collective->size.of(moved),
                            element_of(program_, collective->kind, instruction.per_microbatch), flows});
    return cost_.compute(program_, class_, instruction, sequences);
  }

  Cost of_collective(const CollectiveKey& wanted) const {
    const auto [found, fresh] = collectives_.try_emplace(wanted);
    if (fresh) found->second = cost_.collective(wanted.kind, *wanted.group, wanted.bytes, wanted.element, wanted.flows);
    return found->second;
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
    if (const auto* message = instruction.as<MessageEnd>(); message != nullptr && message->sends())
      return peer_of(instruction, *message), wires_.stream(index_, kind_.slots[static_cast<std::size_t>(message->peer)]);
    const auto* collective = instruction.as<Collective>();
    if (collective == nullptr) return -1;
    return group_of(instruction, *collective), wires_.user_of_group(kind_.groups[static_cast<std::size_t>(collective->group)]);
  }

  Rank peer_of(const Instruction& instruction, const MessageEnd& message) const {
    const auto& peers = program_.ranks[self_.index()].peers;
    FLOTILLA_REQUIRE(message.peer >= 0 && static_cast<std::size_t>(message.peer) < peers.size(), ErrorKind::internal, "\"",
                     instruction.name, "\" of the program names peer slot ", message.peer, "; rank ", self_, " has ", peers.size());
    return peers[static_cast<std::size_t>(message.peer)];
  }
  const program::Group& group_of(const Instruction& instruction, const Collective& collective) const {
    const auto& groups = program_.ranks[self_.index()].groups;
    FLOTILLA_REQUIRE(collective.group >= 0 && static_cast<std::size_t>(collective.group) < groups.size(), ErrorKind::internal, "\"",
                     instruction.name, "\" of the program names group slot ", collective.group, "; rank ", self_, " has ", groups.size());
    return program_.groups[static_cast<std::size_t>(groups[static_cast<std::size_t>(collective.group)])];
  }

  const program::Program& program_;
  const int index_;
  const EquivalentRanks& kind_;
  const program::RankClass& class_;
  const Rank self_;
  const Wires& wires_;
  const InstructionCost& cost_;
  CollectiveCosts& collectives_;
};

}  // namespace

Bytes element_of(const program::Program& program, CollectiveKind kind, bool per_microbatch) {
  if (kind == CollectiveKind::reduce_scalars) return {8};
  if (kind == CollectiveKind::all_gather_shards) return element_size(program.plan.precision);
  const bool sums = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
  return sums && per_microbatch ? element_size(program.plan.precision) : Bytes{4};
}

std::size_t CollectiveKeyHash::operator()(const CollectiveKey& key) const {
  std::uint64_t hash = std::bit_cast<std::uintptr_t>(key.group);
  for (const std::int64_t value : {static_cast<std::int64_t>(key.kind), key.bytes.count, key.element.count, std::int64_t{key.flows.cards},
                                   std::int64_t{key.flows.out}, std::int64_t{key.flows.in}})
    hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(value);
  return Philox::mix(hash);
}

RankCosts costs_of_rank_kind(const program::Program& program, const RankPartition& kinds, std::size_t kind, const Wires& wires,
                             const InstructionCost& cost, CollectiveCosts& collectives) {
  return RankCosting{program, kinds, kind, wires, cost, collectives}.run();
}

}  // namespace flotilla::simulate
