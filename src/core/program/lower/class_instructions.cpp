#include "class_instructions.hpp"

#include "flotilla/base/error.hpp"

namespace flotilla::program {

using model::Operation;

namespace {

/// In place, one buffer after the other; the next compute instruction waits for all of them.
void gather_rows(ClassDraft& draft, int layer, std::initializer_list<int> buffers, int producer, bool backward) {
  const auto& model = draft.in.plan.model;
  const Bytes token = (model.is_block(layer) ? model.hidden : model.embedding_width) * element_size(draft.in.plan.precision);
  const std::int64_t sequence = draft.in.plan.length * token.count;
  for (int buffer : buffers) {
    Instruction instruction;
    instruction.name = text("gather ", draft.out.buffers[at(buffer)].name, " ", layer, backward ? " backward" : "");
    instruction.work = Collective{CollectiveKind::all_gather,
                                  draft.slots.tensor,
                                  {{(sequence + draft.in.kind.tensor_parallel - 1) / draft.in.kind.tensor_parallel}, {}},
                                  token};
    instruction.queue = Queue::reduce;
    instruction.backward = backward;
    instruction.accesses = {{Role::message, buffer, Mode::update}};
    instruction.waits = {{producer, 0}};
    let_next_wait_for(draft, add_instruction(draft, std::move(instruction)));
  }
}

}  // namespace

Instruction once_per_step(std::string name, Instruction::Work work, bool backward) {
  Instruction instruction;
  instruction.name = std::move(name);
  instruction.work = std::move(work);
  instruction.queue = instruction.as<Collective>() != nullptr ? Queue::sum : Queue::compute;
  instruction.per_microbatch = false;
  instruction.backward = backward;
  return instruction;
}

int add_instruction(ClassDraft& draft, Instruction instruction) {
  const int index = static_cast<int>(draft.out.instructions.size());
  draft.out.instructions.push_back(std::move(instruction));
  draft.phase->push_back(index);
  return index;
}

void let_next_wait_for(ClassDraft& draft, int event) {
  if (event >= 0) draft.next_waits.push_back({event, 0});
}

int add_compute(ClassDraft& draft, const ChunkDraft& chunk, Operation operation, int layer, std::vector<Access> accesses, bool recompute) {
  Instruction instruction;
  instruction.name = text(model::to_string(operation), " ", layer, recompute && operation != Operation::block_again ? " again" : "");
  instruction.backward = (draft.phase == &chunk.backward || draft.phase == &chunk.weights) && !recompute &&
                         operation != Operation::head_forward && operation != Operation::head_loss &&
                         operation != Operation::head_begin_forward;
  instruction.accesses = std::move(accesses);
  const int table = instruction.access(Role::token_embedding_weights) != nullptr ? draft.token_embedding_part : -1;
  const bool weights_frozen = instruction.backward && model::makes_weights_gradients(operation) &&
                              !model::trains_weights(draft.in.plan.model, draft.in.tensors, operation, layer);
  instruction.work = LayerOperation{operation, layer, part_of_layer(chunk, layer), table, recompute, weights_frozen};
  if (draft.buffers.workspace >= 0) instruction.accesses.push_back({Role::workspace, draft.buffers.workspace, Mode::write});
  instruction.waits = std::move(draft.next_waits);
  draft.next_waits.clear();
  return add_instruction(draft, std::move(instruction));
}

std::vector<Access> weights_of(const ClassDraft& draft, const ChunkDraft& chunk, int layer, bool gradients) {
  const int part = part_of_layer(chunk, layer);
  if (part < 0) return {};
  const auto& p = draft.out.parts[at(part)];
  std::vector<Access> list{{Role::weights, p.weights, Mode::read}};
  if (gradients) list.push_back({Role::gradients, p.gradients, Mode::update});
  return list;
}

std::vector<Access> token_embedding_table(const ClassDraft& draft, bool gradients) {
  if (draft.token_embedding_part < 0) return {};
  const auto& p = draft.out.parts[at(draft.token_embedding_part)];
  std::vector<Access> list{{Role::token_embedding_weights, p.weights, Mode::read}};
  if (gradients) list.push_back({Role::token_embedding_gradients, p.gradients, Mode::update});
  return list;
}

std::vector<Access> joined(std::vector<Access> a, std::initializer_list<std::vector<Access>> more) {
  for (const auto& list : more) a.insert(a.end(), list.begin(), list.end());
  std::erase_if(a, [](const Access& access) { return access.buffer < 0; });
  return a;
}

int sum_partial(ClassDraft& draft, int layer, int producer, bool backward) {
  if (draft.slots.tensor < 0) return -1;
  const auto& model = draft.in.plan.model;
  const int width = model.is_block(layer) ? model.hidden : model.embedding_width;
  Instruction instruction;
  instruction.name = text(shares_tokens(draft) ? "reduce-scatter " : "all-reduce ", layer, backward ? " backward" : "");
  const Bytes token = width * element_size(draft.in.plan.precision);
  instruction.work = Collective{shares_tokens(draft) ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                                draft.slots.tensor,
                                {std::int64_t{draft.in.plan.length} * token, {}},
                                shares_tokens(draft) ? token : Bytes{}};
  instruction.queue = Queue::reduce;
  instruction.backward = backward;
  instruction.accesses = {{Role::reduced, draft.buffers.partial, Mode::update}, {Role::staging, draft.buffers.staging, Mode::write}};
  instruction.waits = {{producer, 0}};
  return add_instruction(draft, std::move(instruction));
}

void add_begin(ClassDraft& draft, const ChunkDraft& chunk, model::Operation operation, int layer, std::vector<Access> accesses,
               bool recompute, std::initializer_list<int> gathered) {
  const bool backward = draft.phase != &chunk.forward && !recompute && operation != model::Operation::head_begin_forward;
  const int producer = add_compute(draft, chunk, operation, layer, std::move(accesses), recompute);
  gather_rows(draft, layer, gathered, producer, backward);
}

}  // namespace flotilla::program
