#include "messages.hpp"

#include <algorithm>

#include "class_buffers.hpp"
#include "class_instructions.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::program {
namespace {

constexpr int activation_channel = 0, gradient_channel = 1, channels_per_link = 2;

const BoundaryMessages& boundary_messages_of(const ClassDraft& draft, const ChunkDraft& chunk) {
  return draft.in.kind.boundary_messages[at(chunk.chunk)];
}

bool touches(const Instruction& instruction, int buffer) {
  return std::any_of(instruction.accesses.begin(), instruction.accesses.end(), [&](const Access& a) { return a.buffer == buffer; });
}

bool writes(const Instruction& instruction, int buffer) {
  return std::any_of(instruction.accesses.begin(), instruction.accesses.end(),
                     [&](const Access& a) { return a.buffer == buffer && a.mode != Mode::read; });
}

/// The last compute instruction of the phases that touches the buffer, or -1.
int last_compute_touching(const std::vector<Instruction>& instructions, std::initializer_list<const std::vector<int>*> phases, int buffer) {
  int found = -1;
  for (const auto* phase : phases)
    for (int s : *phase)
      if (instructions[at(s)].queue == Queue::compute && touches(instructions[at(s)], buffer)) found = s;
  return found;
}

/// An activation or its gradient, of `layer`'s input, to or from a neighbouring stage.
Instruction boundary_instruction(const ClassDraft& draft, const ChunkDraft& chunk, MessageEnd::Direction direction, int layer,
                                 const BoundaryMessage& boundary_message, bool backward) {
  const Bytes token = draft.in.plan.model.hidden * element_size(draft.in.plan.precision);
  MessageEnd end;
  end.direction = direction;
  end.peer = boundary_message.peer;
  const int before =
      layer == chunk.stage.first_layer ? stage_index(draft, chunk) - 1 : stage_index(draft, chunk);  // the stage on the earlier side
  end.channel = channels_per_link * (before / plan::own_stages(draft.in.plan)) + (backward ? gradient_channel : activation_channel);
  if (boundary_message.tokens == 0) end.size.per_sequence = std::int64_t{draft.in.plan.length / boundary_message.pieces} * token;
  end.own_piece = boundary_message.tokens == 0 && boundary_message.pieces > 1 && !shares_tokens(draft);
  end.size.fixed = boundary_message.tokens * token;
  end.offset = boundary_message.first * token;
  end.runs = boundary_message.runs;
  Instruction instruction;
  instruction.name = text(end.sends() ? "send " : "receive ", backward ? "gradient" : "activation", chunk_suffix(draft, chunk));
  instruction.queue = end.sends() ? Queue::send : backward ? Queue::receive_back : Queue::receive;
  instruction.backward = backward;
  instruction.accesses = {
      {Role::message, backward ? chunk.gradient : activation_into(chunk, layer), end.sends() ? Mode::read : Mode::write}};
  instruction.work = std::move(end);
  return instruction;
}

/// Every member of the tensor-parallel group has received its own piece of the microbatch's tokens.
int add_gather(ClassDraft& draft, const ChunkDraft& chunk, const std::vector<int>& receives, int layer, bool backward) {
  const std::int64_t sequence =
      std::int64_t{draft.in.plan.length} * draft.in.plan.model.hidden * element_size(draft.in.plan.precision).count;
  Instruction instruction;
  instruction.name = backward ? "gather gradient" : "gather activation";
  instruction.work = Collective{CollectiveKind::all_gather,
                                draft.slots.tensor,
                                {{(sequence + draft.in.kind.tensor_parallel - 1) / draft.in.kind.tensor_parallel}, {}},
                                {}};
  instruction.queue = Queue::reduce;
  instruction.backward = backward;
  instruction.accesses = {{Role::message, backward ? chunk.gradient : activation_into(chunk, layer), Mode::write}};
  for (int receive : receives) instruction.waits.push_back({receive, 0});
  return add_instruction(draft, std::move(instruction));
}

std::vector<int> add_receives(ClassDraft& draft, const ChunkDraft& chunk, const std::vector<BoundaryMessage>& boundary_messages, int layer,
                              bool backward) {
  std::vector<int> instructions;
  for (const BoundaryMessage& boundary_message : boundary_messages)
    instructions.push_back(
        add_instruction(draft, boundary_instruction(draft, chunk, MessageEnd::Direction::receive, layer, boundary_message, backward)));
  if (draft.slots.tensor >= 0 && !shares_tokens(draft))
    instructions.push_back(add_gather(draft, chunk, instructions, layer, backward));  // also where a member's own piece is empty
  return instructions;
}

std::vector<int> add_sends(ClassDraft& draft, const ChunkDraft& chunk, const std::vector<BoundaryMessage>& boundary_messages, int layer,
                           bool backward, int producer) {
  std::vector<int> sends;
  for (const BoundaryMessage& boundary_message : boundary_messages) {
    auto instruction = boundary_instruction(draft, chunk, MessageEnd::Direction::send, layer, boundary_message, backward);
    instruction.waits = {{producer, 0}};
    sends.push_back(add_instruction(draft, std::move(instruction)));
  }
  return sends;
}

void close_activation_waits(ClassDraft& draft, const ChunkDraft& chunk) {
  const auto instruction = [&](int s) -> Instruction& { return draft.out.instructions[at(s)]; };
  const auto copies = [&](int buffer) { return draft.out.buffers[at(buffer)].copies; };
  const int received = chunk.receive_activation.empty() ? -1 : activation_into(chunk, chunk.stage.first_layer);
  const int reader =
      received < 0 ? -1 : last_compute_touching(draft.out.instructions, {&chunk.forward, &chunk.backward, &chunk.weights}, received);
  for (int receive : chunk.receive_activation) {
    if (reader >= 0) instruction(receive).waits.push_back({reader, copies(received)});
    for (int send : chunk.send_activation)  // a stage without layers of its own between would forward the very buffer it received
      if (touches(instruction(send), received)) instruction(receive).waits.push_back({send, copies(received)});
  }
  for (int send : chunk.send_activation)
    for (const auto& wait : std::vector<Wait>{instruction(send).waits})
      instruction(wait.instruction).waits.push_back({send, copies(activation_into(chunk, chunk.stage.last_layer))});
}

void close_gradient_waits(ClassDraft& draft, const ChunkDraft& chunk) {
  const auto instruction = [&](int s) -> Instruction& { return draft.out.instructions[at(s)]; };
  const int copies = chunk.gradient < 0 ? 1 : draft.out.buffers[at(chunk.gradient)].copies;
  const auto after_sends = [&](int s) {
    for (int send : chunk.send_gradient) instruction(s).waits.push_back({send, copies});
  };
  for (int receive : chunk.receive_gradient) {
    instruction(receive).waits.push_back({last_compute_touching(draft.out.instructions, {&chunk.backward}, chunk.gradient), copies});
    after_sends(receive);
  }
  // Who shares tokens may have no part in a microbatch: nothing is received then, and the first pass itself waits.
  if (!chunk.receive_gradient.empty() && !shares_tokens(draft)) return;
  const auto first = std::ranges::find_if(
      chunk.backward, [&](int s) { return instruction(s).queue == Queue::compute && writes(instruction(s), chunk.gradient); });
  if (first != chunk.backward.end()) after_sends(*first);
}

}  // namespace

void let_next_wait_for_arrival(ClassDraft& draft, const std::vector<int>& instructions) {
  if (draft.slots.tensor >= 0 && !shares_tokens(draft) && !instructions.empty())
    let_next_wait_for(draft, instructions.back());
  else
    for (int instruction : instructions) let_next_wait_for(draft, instruction);
}

void add_receive_activation(ClassDraft& draft, ChunkDraft& chunk) {
  if (has_embedding(chunk) || in_place(draft)) return;
  chunk.receive_activation = add_receives(draft, chunk, boundary_messages_of(draft, chunk).activations_in, chunk.stage.first_layer, false);
  let_next_wait_for_arrival(draft, chunk.receive_activation);
}

void add_receive_gradient(ClassDraft& draft, ChunkDraft& chunk) {
  if (has_head(draft, chunk) || in_place(draft)) return;
  chunk.receive_gradient = add_receives(draft, chunk, boundary_messages_of(draft, chunk).gradients_in, chunk.stage.last_layer, true);
}

void add_send_activation(ClassDraft& draft, ChunkDraft& chunk) {
  const auto& boundary_messages = boundary_messages_of(draft, chunk).activations_out;
  if (boundary_messages.empty()) return;
  chunk.send_activation =
      add_sends(draft, chunk, boundary_messages, chunk.stage.last_layer, false,
                last_compute_touching(draft.out.instructions, {&chunk.forward}, activation_into(chunk, chunk.stage.last_layer)));
}

void add_send_gradient(ClassDraft& draft, ChunkDraft& chunk) {
  const auto& boundary_messages = boundary_messages_of(draft, chunk).gradients_out;
  if (boundary_messages.empty()) return;
  chunk.send_gradient = add_sends(draft, chunk, boundary_messages, chunk.stage.first_layer, true,
                                  last_compute_touching(draft.out.instructions, {&chunk.backward}, chunk.gradient));
}

void close_waits(ClassDraft& draft, const ChunkDraft& chunk) {
  close_activation_waits(draft, chunk);
  if (is_training(draft)) close_gradient_waits(draft, chunk);
}

}  // namespace flotilla::program
