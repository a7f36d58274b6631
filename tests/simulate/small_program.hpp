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
using program::Op;
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
inline Instruction message(const std::string& name, Op op, int peer, std::vector<program::Wait> waits = {}) {
  Instruction instruction = compute(name, std::move(waits));
  instruction.op = op;
  instruction.queue = op == Op::send ? Queue::send : Queue::receive;
  instruction.peer = peer;
  instruction.channel = 0;
  instruction.bytes_per_sequence = {100};
  return instruction;
}
inline Instruction sum(const std::string& name, int group, std::vector<program::Wait> waits = {}) {
  Instruction instruction = compute(name, std::move(waits));
  instruction.op = Op::all_reduce;
  instruction.queue = Queue::reduce;
  instruction.group = group;
  instruction.bytes_per_sequence = {64};
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
inline Instruction blocking(const std::string& name, Op op, int peer, int channel = 0) {
  Instruction instruction = message(name, op, peer);
  instruction.queue = Queue::compute;
  instruction.channel = channel;
  return instruction;
}

}  // namespace flotilla::fixture
