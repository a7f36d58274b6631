#pragma once
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_cost.hpp"
#include "flotilla/simulate/forecast.hpp"

/// Programs written by hand.
namespace flotilla::fixture {

using program::Instruction;
using program::MessageEnd;
using program::Program;
using program::Queue;
using program::RankClass;
using simulate::Forecast;
using simulate::Span;

inline Instruction compute(const std::string& name, std::vector<program::Wait> waits = {}) {
  Instruction instruction;
  instruction.name = name;
  instruction.waits = std::move(waits);
  return instruction;
}
inline constexpr auto send = MessageEnd::Direction::send, receive = MessageEnd::Direction::receive;
inline Instruction message(const std::string& name, MessageEnd::Direction direction, int peer, std::vector<program::Wait> waits = {}) {
  Instruction instruction = compute(name, std::move(waits));
  MessageEnd end;
  end.direction = direction;
  end.peer = peer;
  end.channel = 0;
  end.size.per_sequence = {100};
  instruction.work = end;
  instruction.queue = direction == send ? Queue::send : Queue::receive;
  return instruction;
}
inline Instruction sum(const std::string& name, int group, std::vector<program::Wait> waits = {}) {
  Instruction instruction = compute(name, std::move(waits));
  instruction.work = program::Collective{program::CollectiveKind::all_reduce, group, {{64}, {}}, {}};
  instruction.queue = Queue::reduce;
  return instruction;
}

/// Every instruction once per microbatch, in the order given.
inline RankClass rank_class(std::vector<Instruction> instructions, int microbatches = 1) {
  RankClass c;
  c.microbatches = microbatches;
  c.last_sequences = 1;
  c.instructions = std::move(instructions);
  program::Block block{microbatches, {}};
  for (std::size_t s = 0; s < c.instructions.size(); ++s) block.steps.push_back({static_cast<int>(s), 0});
  c.blocks = {block};
  return c;
}

inline void add_rank(Program& p, RankClass c, std::vector<int> peers = {}, std::vector<int> groups = {}) {
  program::RankBinding binding;
  binding.rank_class = static_cast<int>(p.classes.size());
  for (int peer : peers) binding.peers.push_back(Rank{peer});
  binding.groups = std::move(groups);
  p.classes.push_back(std::move(c));
  p.ranks.push_back(std::move(binding));
}

inline FakeCost seconds_by_name() {
  FakeCost cost;  // "3" takes three seconds
  cost.compute_seconds = [](const Instruction& instruction, int) { return std::stod(instruction.name); };
  return cost;
}

inline const Span& span_of(const Forecast& forecast, int rank, const std::string& name, int microbatch = 0) {
  const auto found = std::ranges::find_if(
      forecast.timeline, [&](const Span& s) { return s.rank == Rank{rank} && s.name == name && s.microbatch == microbatch; });
  if (found == forecast.timeline.end()) throw std::runtime_error{"no span " + name};
  return *found;
}

/// On the compute queue, which stands still until the message has moved.
inline Instruction blocking(const std::string& name, MessageEnd::Direction direction, int peer, int channel = 0) {
  Instruction instruction = message(name, direction, peer);
  instruction.queue = Queue::compute;
  instruction.as<MessageEnd>()->channel = channel;
  return instruction;
}

}  // namespace flotilla::fixture
