#include "binding.hpp"

#include <algorithm>

#include "connections.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/overloaded.hpp"
#include "host_buffers.hpp"

namespace flotilla::train {

using program::CollectiveKind;
using program::Role;

Binding::Binding(const program::Program& program, Rank rank, const Arena& arena, const HostBuffers* host, const comm::World& world,
                 const Connections& connections, int channel_base)
    : program_{program},
      binding_{program.ranks.at(rank.index())},
      class_{program.classes.at(static_cast<std::size_t>(binding_.rank_class))},
      rank_{rank},
      arena_{arena},
      host_{host},
      world_{world},
      connections_{connections},
      channel_base_{channel_base},
      of_instruction_(class_.instructions.size()) {
  const auto list = program::expand(program, rank);
  const auto launched = connections.launched(program);
  instructions_.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) bind(instructions_[i], list[i], launched);
  for (const auto& issued : instructions_)
    for (int wait : issued.waits) {
      auto& awaited = instructions_[static_cast<std::size_t>(wait)];
      if (on_comm_thread(*awaited.instruction) != on_comm_thread(*issued.instruction)) awaited.awaited_by_other_thread = true;
    }
}

std::byte* Binding::buffer(int index, int microbatch) const {
  return arena_.at(program::offset_of(class_.buffers[static_cast<std::size_t>(index)], microbatch));
}

std::byte* Binding::on_host(int index, int microbatch) const {
  return host_ == nullptr ? buffer(index, microbatch) : host_->at(index, microbatch);
}

std::byte* Binding::operand(const BoundInstruction& bound, int index, int microbatch) const {
  return bound.on_device ? buffer(index, microbatch) : on_host(index, microbatch);
}

comm::PersistentOperation* Binding::keep(std::unique_ptr<comm::PersistentOperation> operation) {
  operations_.push_back(std::move(operation));
  return operations_.back().get();
}

void Binding::bind(BoundInstruction& bound, const program::IssuedInstruction& issued, const program::IsLaunched& launched) {
  const auto& instruction = class_.instructions[static_cast<std::size_t>(issued.instruction)];
  bound.instruction = &instruction;
  bound.microbatch = issued.microbatch;
  bound.sequences = instruction.per_microbatch ? class_.sequences(issued.microbatch) : 0;
  bound.waits = issued.waits;
  bound.launched = launched(rank_, instruction);
  bound.on_device = connections_.on_device_memory(program_, instruction);
  auto& task = bound.task;
  task.sequences = bound.sequences;
  task.training = program_.purpose == program::Purpose::training;
  const auto& firsts = program_.first_sequences.at(static_cast<std::size_t>(binding_.batch_partition));
  if (instruction.per_microbatch) task.first_sequence = firsts.at(static_cast<std::size_t>(bound.microbatch));
  for (const auto& access : instruction.accesses)
    task.operands[static_cast<std::size_t>(access.role)] = buffer(access.buffer, bound.microbatch);
  std::visit(Overloaded{[&](const program::LayerOperation& operation) { bind_layer(task, operation); },
                        [&](const program::MessageEnd& message) { bind_message(bound, message); },
                        [&](const program::Collective& collective) { bind_collective(bound, collective); }, [](const auto&) {}},
             instruction.work);
}

void Binding::bind_layer(compute::Task& task, const program::LayerOperation& operation) const {
  const auto part = [&](int index) { return index < 0 ? nullptr : &class_.parts[static_cast<std::size_t>(index)]; };
  task.operation = operation.operation;
  task.layer = operation.layer;
  task.part = part(operation.part);
  task.token_embedding_part = part(operation.token_embedding_part);
}

std::vector<comm::PersistentOperation*>& Binding::instances_of(const program::Instruction& instruction) {
  return of_instruction_[static_cast<std::size_t>(&instruction - class_.instructions.data())];
}

// One operation for each instance of the buffer: the instances are reused, and so are their operations. A short microbatch has its own,
// since the rank's piece of it begins elsewhere.
void Binding::bind_message(BoundInstruction& bound, const program::MessageEnd& message) {
  const auto& access = *bound.instruction->access(Role::message);
  const auto& about = class_.buffers[static_cast<std::size_t>(access.buffer)];
  bound.size = message.size.of(bound.sequences);
  if (bound.launched) return;
  auto& instances = instances_of(*bound.instruction);
  instances.resize(static_cast<std::size_t>(2 * about.copies));
  const int first = bound.sequences == class_.shape.sequences ? 0 : about.copies;
  auto& slot = instances[static_cast<std::size_t>(first + bound.microbatch % about.copies)];
  if (slot == nullptr) {
    const Rank peer = binding_.peers[static_cast<std::size_t>(message.peer)];
    const Bytes begin = message.begin(binding_.tensor_index, bound.sequences);
    std::byte* data = operand(bound, access.buffer, bound.microbatch) + begin.count;
    const Bytes most = about.size - begin;
    const int channel = channel_base_ + message.channel;
    slot =
        keep(message.sends() ? comm::make_send(world_, peer, channel, data, most) : comm::make_receive(world_, peer, channel, data, most));
  }
  bound.operation = slot;
}

void Binding::bind_collective(BoundInstruction& bound, const program::Collective& collective) {
  const auto& instruction = *bound.instruction;
  auto& instances = instances_of(instruction);
  if (const auto* pieces = instruction.access(Role::message)) return bind_gather(bound, collective, *pieces);
  bound.size = collective.size.of(bound.sequences);
  if (bound.launched) return;
  if (instances.empty()) instances.push_back(make_collective(bound, collective));
  bound.operation = instances.front();
}

comm::ProcessGroup& Binding::group_of(const program::Collective& collective) const {
  return *connections_.groups()[static_cast<std::size_t>(binding_.groups[static_cast<std::size_t>(collective.group)])];
}

comm::ProcessGroup& Binding::group_of(const BoundInstruction& bound, const program::Collective& collective) const {
  return bound.on_device ? connections_.device_memory_group(program_, *bound.instruction) : group_of(collective);
}

Bytes Binding::token_bytes(const program::Instruction& instruction, const program::Collective& collective) const {
  if (collective.token.count > 0) return collective.token;
  const auto buffer = static_cast<std::size_t>(instruction.access(Role::message)->buffer);
  return Bytes{class_.buffers[buffer].size.count / class_.shape.tokens()};
}

/// The pieces of a microbatch's tokens, in each instance of the buffer.
void Binding::bind_gather(BoundInstruction& bound, const program::Collective& collective, const program::Access& access) {
  const auto& about = class_.buffers[static_cast<std::size_t>(access.buffer)];
  const Bytes token = token_bytes(*bound.instruction, collective);
  bound.size = std::int64_t{bound.sequences} * class_.shape.length * token;
  if (bound.launched) return;
  auto& instances = instances_of(*bound.instruction);
  instances.resize(static_cast<std::size_t>(about.copies));
  auto& slot = instances[static_cast<std::size_t>(bound.microbatch % about.copies)];
  if (slot == nullptr)
    slot = keep(group_of(bound, collective).make_gather_pieces(operand(bound, access.buffer, bound.microbatch), token, about.size));
  bound.operation = slot;
}

comm::PersistentOperation* Binding::make_collective(const BoundInstruction& bound, const program::Collective& collective) {
  const auto& instruction = *bound.instruction;
  auto& group = group_of(bound, collective);
  const auto* staging = instruction.access(Role::staging);
  std::byte* staging_data = staging == nullptr ? nullptr : operand(bound, staging->buffer);
  const Bytes staging_size = staging == nullptr ? Bytes{} : class_.buffers[static_cast<std::size_t>(staging->buffer)].size;
  const auto place = [&](Role role) { return operand(bound, instruction.access(role)->buffer); };
  const auto size_of = [&](Role role) { return class_.buffers[static_cast<std::size_t>(instruction.access(role)->buffer)].size; };
  const auto activations = element_type(program_.plan.precision);
  switch (collective.kind) {
    case CollectiveKind::all_reduce: {
      const bool in_pass = instruction.per_microbatch;  // else of gradients
      return keep(group.make_all_reduce(place(Role::reduced), in_pass ? activations : ElementType::fp32,
                                        in_pass ? size_of(Role::reduced) : collective.size.fixed, staging_data, staging_size));
    }
    case CollectiveKind::reduce_scatter:
      return keep(group.make_reduce_scatter(place(Role::reduced), activations, collective.token, class_.shape.tokens() * collective.token,
                                            staging_data, staging_size));
    case CollectiveKind::reduce_scatter_shards:
      return keep(
          group.make_reduce_scatter_shards(place(Role::reduced), ElementType::fp32, collective.size.fixed, staging_data, staging_size));
    case CollectiveKind::all_gather_shards:
      return keep(group.make_all_gather_shards(place(Role::reduced), element_size(program_.plan.precision), collective.size.fixed));
    case CollectiveKind::all_gather:
      return keep(group.make_all_gather(place(Role::stats), place(Role::gathered_stats), size_of(Role::stats)));
    case CollectiveKind::reduce_scalars: break;
  }
  return keep(group.make_all_reduce(place(Role::totals), ElementType::fp64, collective.size.fixed, staging_data, staging_size));
}

}  // namespace flotilla::train
