#include "binding.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::train {

using program::Op;
using program::Role;

Binding::Binding(const program::Program& program, Rank rank, const Arena& arena, const comm::World& world, const comm::Groups& groups,
                 int channel_base)
    : program_{program},
      binding_{program.ranks.at(rank.index())},
      class_{program.classes.at(static_cast<std::size_t>(binding_.rank_class))},
      rank_{rank},
      arena_{arena},
      world_{world},
      groups_{groups},
      channel_base_{channel_base},
      of_instruction_(class_.instructions.size()) {
  for (std::size_t p = 0; p < class_.parts.size(); ++p)
    if (class_.parts[p].name == "token embedding") token_embedding_part_ = static_cast<int>(p);
  const auto list = program::expand(program, rank);
  instructions_.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) bind(instructions_[i], list[i]);
  for (const auto& issued : instructions_)
    for (int wait : issued.waits) {
      auto& awaited = instructions_[static_cast<std::size_t>(wait)];
      if (on_comm_thread(*awaited.instruction) != on_comm_thread(*issued.instruction)) awaited.awaited_by_other_thread = true;
    }
}

std::byte* Binding::buffer(int index, int microbatch) const {
  return arena_.at(program::offset_of(class_.buffers[static_cast<std::size_t>(index)], microbatch));
}

const program::Access* Binding::find(const program::Instruction& instruction, Role role) const {
  const auto found = std::find_if(instruction.accesses.begin(), instruction.accesses.end(), [&](const auto& a) { return a.role == role; });
  return found == instruction.accesses.end() ? nullptr : &*found;
}

comm::Operation* Binding::keep(std::unique_ptr<comm::Operation> operation) {
  operations_.push_back(std::move(operation));
  return operations_.back().get();
}

void Binding::bind(BoundInstruction& bound, const program::IssuedInstruction& issued) {
  const auto& instruction = class_.instructions[static_cast<std::size_t>(issued.instruction)];
  bound.instruction = &instruction;
  bound.microbatch = issued.microbatch;
  bound.sequences = instruction.per_microbatch ? class_.sequences(issued.microbatch) : 0;
  bound.waits = issued.waits;
  bound.size = instruction.size(bound.sequences);
  auto& task = bound.task;
  task.operation = instruction.operation;
  task.layer = instruction.layer;
  task.sequences = bound.sequences;
  task.training = program_.purpose == program::Purpose::training;
  const auto& firsts = program_.first_sequences.at(static_cast<std::size_t>(binding_.batch_partition));
  if (instruction.per_microbatch) task.first_sequence = firsts.at(static_cast<std::size_t>(bound.microbatch));
  task.loss_scale = 1.0f / (static_cast<float>(program_.plan.global_batch) * static_cast<float>(program_.plan.length));
  if (instruction.part >= 0) task.part = &class_.parts[static_cast<std::size_t>(instruction.part)];
  if (token_embedding_part_ >= 0) task.token_embedding_part = &class_.parts[static_cast<std::size_t>(token_embedding_part_)];
  for (const auto& access : instruction.accesses)
    task.operands[static_cast<std::size_t>(access.role)] = buffer(access.buffer, bound.microbatch);
  if (instruction.op == Op::send || instruction.op == Op::receive) bind_message(bound);
  if (instruction.group >= 0) bind_collective(bound);
}

// One operation for each instance of the buffer: the instances are reused, and so are their operations. A short microbatch has its own,
// since the rank's piece of it begins elsewhere.
void Binding::bind_message(BoundInstruction& bound) {
  const auto& access = *find(*bound.instruction, Role::message);
  const auto& about = class_.buffers[static_cast<std::size_t>(access.buffer)];
  auto& instances = of_instruction_[static_cast<std::size_t>(bound.instruction - class_.instructions.data())];
  instances.resize(static_cast<std::size_t>(2 * about.copies));
  const int first = bound.sequences == class_.shape.sequences ? 0 : about.copies;
  auto& slot = instances[static_cast<std::size_t>(first + bound.microbatch % about.copies)];
  if (slot == nullptr) {
    const Rank peer = binding_.peers[static_cast<std::size_t>(bound.instruction->peer)];
    const Bytes begin = bound.instruction->begin(binding_.tensor_index, bound.sequences);
    std::byte* data = buffer(access.buffer, bound.microbatch) + begin.count;
    const Bytes most = about.size - begin;
    const int channel = channel_base_ + bound.instruction->channel;
    slot = keep(bound.instruction->op == Op::send ? comm::make_send(world_, peer, channel, data, most)
                                                  : comm::make_receive(world_, peer, channel, data, most));
  }
  bound.operation = slot;
}

void Binding::bind_collective(BoundInstruction& bound) {
  const auto& instruction = *bound.instruction;
  auto& instances = of_instruction_[static_cast<std::size_t>(&instruction - class_.instructions.data())];
  if (const auto* pieces = find(instruction, Role::message); pieces != nullptr) return bind_gather(bound, *pieces);
  if (instances.empty()) instances.push_back(make_collective(instruction));
  bound.operation = instances.front();
}

comm::Group& Binding::group_of(const program::Instruction& instruction) const {
  return *groups_[static_cast<std::size_t>(binding_.groups[static_cast<std::size_t>(instruction.group)])];
}

/// The pieces of a microbatch's tokens, in each instance of the buffer.
void Binding::bind_gather(BoundInstruction& bound, const program::Access& access) {
  const auto& about = class_.buffers[static_cast<std::size_t>(access.buffer)];
  auto& instances = of_instruction_[static_cast<std::size_t>(bound.instruction - class_.instructions.data())];
  instances.resize(static_cast<std::size_t>(about.copies));
  auto& slot = instances[static_cast<std::size_t>(bound.microbatch % about.copies)];
  const Bytes token = bound.instruction->token.count > 0 ? bound.instruction->token : Bytes{about.size.count / class_.shape.tokens()};
  if (slot == nullptr)
    slot = keep(group_of(*bound.instruction).make_gather_pieces(buffer(access.buffer, bound.microbatch), token, about.size));
  bound.operation = slot;
  bound.size = std::int64_t{bound.sequences} * class_.shape.length * token;
}

comm::Operation* Binding::make_collective(const program::Instruction& instruction) {
  auto& group = group_of(instruction);
  const auto* staging = find(instruction, Role::staging);
  std::byte* staging_data = staging == nullptr ? nullptr : buffer(staging->buffer);
  const Bytes staging_size = staging == nullptr ? Bytes{} : class_.buffers[static_cast<std::size_t>(staging->buffer)].size;
  if (instruction.op == Op::all_reduce) {
    const auto& reduced = *find(instruction, Role::reduced);
    const auto type = instruction.part >= 0 ? comm::ElementType::fp32 : comm::element_type(program_.plan.precision);
    const Bytes capacity = instruction.per_microbatch ? class_.buffers[static_cast<std::size_t>(reduced.buffer)].size : instruction.bytes;
    return keep(group.make_all_reduce(buffer(reduced.buffer), type, capacity, staging_data, staging_size));
  }
  if (instruction.op == Op::reduce_scatter) {
    const auto& reduced = *find(instruction, Role::reduced);
    const Bytes capacity = class_.shape.tokens() * instruction.token;
    return keep(group.make_reduce_scatter(buffer(reduced.buffer), comm::element_type(program_.plan.precision), instruction.token, capacity,
                                          staging_data, staging_size));
  }
  if (instruction.op == Op::reduce_scatter_shards)
    return keep(group.make_reduce_scatter_shards(buffer(find(instruction, Role::reduced)->buffer), comm::ElementType::fp32,
                                                 instruction.bytes, staging_data, staging_size));
  if (instruction.op == Op::all_gather_shards)
    return keep(group.make_all_gather_shards(buffer(find(instruction, Role::reduced)->buffer), element_size(program_.plan.precision),
                                             instruction.bytes));
  if (instruction.op == Op::all_gather) {
    const auto& mine = *find(instruction, Role::stats);
    const auto& all = *find(instruction, Role::gathered_stats);
    return keep(group.make_all_gather(buffer(mine.buffer), buffer(all.buffer), class_.buffers[static_cast<std::size_t>(mine.buffer)].size));
  }
  FLOTILLA_ASSERT(instruction.op == Op::reduce_scalars, instruction.name);
  const auto& totals = *find(instruction, Role::totals);
  return keep(group.make_all_reduce(buffer(totals.buffer), comm::ElementType::fp64, instruction.bytes, staging_data, staging_size));
}

}  // namespace flotilla::train
