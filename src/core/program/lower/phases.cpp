#include "phases.hpp"

#include <algorithm>

#include "class_instructions.hpp"
#include "flotilla/model/block_end.hpp"
#include "messages.hpp"
#include "weights_halves.hpp"

namespace flotilla::program {

using model::Operation;

namespace {

/// For a layer with a table of positions.
std::vector<Access> starts_of_positions(const ClassDraft& draft, const ChunkDraft& chunk) {
  if (!draft.in.plan.model.has_position_table()) return {};
  return {{Role::document_starts, chunk.document_starts, Mode::read}};
}

void add_embedding_forward(ClassDraft& draft, const ChunkDraft& chunk) {
  const int lookup =
      add_compute(draft, chunk, Operation::embedding_forward, 0,
                  joined({{Role::tokens, draft.buffers.tokens, Mode::read}, {Role::partial, draft.buffers.partial, Mode::write}},
                         {draft.in.plan.model.tied_head ? token_embedding_table(draft, false) : weights_of(draft, chunk, 0, false)}));
  let_next_wait_for(draft, sum_partial(draft, 0, lookup, false));
  add_compute(draft, chunk, Operation::embedding_end_forward, 0,
              joined({{Role::partial, draft.buffers.partial, Mode::read},
                      {Role::saved, saved_of(chunk, 0), Mode::write},
                      {Role::output, activation_into(chunk, 1), Mode::write}},
                     {weights_of(draft, chunk, 0, false), starts_of_positions(draft, chunk)}));
}

void add_block_forward(ClassDraft& draft, const ChunkDraft& chunk, int layer, bool recompute) {
  const int input = activation_into(chunk, layer), kept = saved_of(chunk, layer);
  const auto operands = [&](Mode mode) {
    return joined({{Role::input, input, Mode::read},
                   {Role::saved, kept, mode},
                   {Role::partial, draft.buffers.partial, mode},
                   {Role::again, again_of(draft, chunk), mode}},
                  {weights_of(draft, chunk, layer, false)});
  };
  if (shares_tokens(draft))
    add_begin(draft, chunk, Operation::attention_begin_forward, layer, operands(Mode::write), recompute, {draft.buffers.partial});
  const int attention = add_compute(
      draft, chunk, Operation::attention_forward, layer,
      joined(operands(shares_tokens(draft) ? Mode::update : Mode::write),
             {{{Role::cache, cache_of(chunk, layer), Mode::update}, {Role::document_starts, chunk.document_starts, Mode::read}}}),
      recompute);
  let_next_wait_for(draft, sum_partial(draft, layer, attention, false));
  if (shares_tokens(draft))
    add_begin(draft, chunk, Operation::mlp_begin_forward, layer, operands(Mode::update), recompute, {draft.buffers.partial});
  const int mlp = add_compute(draft, chunk, Operation::mlp_forward, layer, operands(Mode::update), recompute);
  // Again in backward, a block has now all it keeps, unless a norm follows that needs its input.
  if (recompute && !model::end_keeps(draft.in.plan.model)) return;
  let_next_wait_for(draft, sum_partial(draft, layer, mlp, false));
  add_compute(draft, chunk, Operation::block_end_forward, layer,
              joined({{Role::partial, draft.buffers.partial, Mode::read},
                      {Role::saved, kept, Mode::update},
                      {Role::again, again_of(draft, chunk), Mode::read},
                      {Role::output, recompute ? draft.buffers.discard : activation_into(chunk, layer + 1), Mode::write}},
                     {weights_of(draft, chunk, layer, false)}),
              recompute);
}

/// Before the gradient is waited for: it does not need it.
void add_block_again(ClassDraft& draft, const ChunkDraft& chunk, int layer) {
  add_compute(draft, chunk, Operation::block_again, layer,
              joined({{Role::input, activation_into(chunk, layer), Mode::read},
                      {Role::saved, saved_of(chunk, layer), Mode::update},
                      {Role::again, again_of(draft, chunk, layer), Mode::write}},
                     {weights_of(draft, chunk, layer, false)}),
              true);
}

void add_block_backward(ClassDraft& draft, const ChunkDraft& chunk, int layer) {
  const int input = activation_into(chunk, layer), held = saved_of(chunk, layer);
  const auto operands = [&](Mode partial, Mode gathered) {
    return joined({{Role::gradient, chunk.gradient, Mode::update},
                   {Role::partial, draft.buffers.partial, partial},
                   {Role::gathered, splits_backward(draft) ? -1 : draft.buffers.gathered_rows,
                    gathered},  // inputs are gathered for the weights' half
                   {Role::saved, held, Mode::update},
                   {Role::again, again_of(draft, chunk, layer), Mode::read},
                   {Role::input, input, Mode::read}},
                  {weights_of(draft, chunk, layer, true)});
  };
  const auto begin = [&](Operation operation, Mode partial) {
    if (!shares_tokens(draft)) return;
    auto accesses = operands(partial, Mode::write);
    if (splits_backward(draft))
      add_begin(draft, chunk, operation, layer, std::move(accesses), false, {draft.buffers.partial});
    else
      add_begin(draft, chunk, operation, layer, std::move(accesses), false, {draft.buffers.partial, draft.buffers.gathered_rows});
  };
  begin(Operation::mlp_begin_backward, Mode::write);
  const int mlp = add_compute(draft, chunk, splits_backward(draft) ? Operation::mlp_backward_input : Operation::mlp_backward, layer,
                              joined(operands(shares_tokens(draft) ? Mode::update : Mode::write, Mode::read),
                                     {{{Role::kept, kept_of(chunk, layer), Mode::write}}}));
  let_next_wait_for(draft, sum_partial(draft, layer, mlp, true));
  begin(Operation::attention_begin_backward, Mode::update);
  const int attention =
      add_compute(draft, chunk, splits_backward(draft) ? Operation::attention_backward_input : Operation::attention_backward, layer,
                  joined(operands(Mode::update, Mode::read), {{{Role::document_starts, chunk.document_starts, Mode::read}}}));
  let_next_wait_for(draft, sum_partial(draft, layer, attention, true));
  add_compute(draft, chunk, Operation::block_begin_backward, layer, operands(Mode::read, Mode::read));
}

/// Every stage reads them from the data, so that no message carries them. In place, the first chunk that asks reads for all.
void add_document_load(ClassDraft& draft, const ChunkDraft& chunk) {
  const auto first = std::ranges::find(draft.chunks, chunk.document_starts, &ChunkDraft::document_starts);
  if (chunk.document_starts < 0 || first->chunk != chunk.chunk) return;
  Instruction load;
  load.name = "load document starts";
  load.work = DocumentLoad{};
  load.accesses = {{Role::document_starts, chunk.document_starts, Mode::write}};
  add_instruction(draft, std::move(load));
}

}  // namespace

void add_opening_phase(ClassDraft& draft) {
  auto scalars = once_per_step("zero scalars", ZeroFill{}, false);
  scalars.accesses = {{Role::scalars, draft.buffers.scalars, Mode::write}};
  add_instruction(draft, std::move(scalars));
  for (std::size_t p = 0; is_training(draft) && p < draft.out.parts.size(); ++p) {
    if (draft.out.parts[p].gradients < 0) continue;
    auto instruction = once_per_step("zero gradients " + draft.out.parts[p].name, ZeroFill{static_cast<int>(p)}, false);
    instruction.accesses = {{Role::gradients, draft.out.parts[p].gradients, Mode::write}};
    add_instruction(draft, std::move(instruction));
  }
}

void add_forward_phase(ClassDraft& draft, ChunkDraft& chunk) {
  const bool loaded_before = in_place(draft) && chunk.chunk > 0;  // by the chunk of the embedding
  if ((has_embedding(chunk) || has_head(draft, chunk)) && !loaded_before) {
    Instruction load;
    load.name = "load tokens";
    load.work = TokenLoad{};
    load.accesses = {{Role::tokens, draft.buffers.tokens, Mode::write}};
    add_instruction(draft, std::move(load));
  }
  add_document_load(draft, chunk);
  add_receive_activation(draft, chunk);
  if (has_embedding(chunk)) add_embedding_forward(draft, chunk);
  for (int layer = first_block(chunk); layer <= last_block(draft, chunk); ++layer) add_block_forward(draft, chunk, layer, false);
  add_send_activation(draft, chunk);
}

void add_head_phase(ClassDraft& draft, const ChunkDraft& chunk) {
  const int head = draft.in.plan.model.layers() - 1;
  if (shares_tokens(draft))
    add_begin(draft, chunk, Operation::head_begin_forward, head,
              joined({{Role::input, activation_into(chunk, head), Mode::read},
                      {Role::saved, draft.buffers.head_saved, Mode::write},
                      {Role::gathered, draft.buffers.gathered_rows, Mode::write}},
                     {weights_of(draft, chunk, head, false)}),
              false, {draft.buffers.gathered_rows});
  const int forward = add_compute(draft, chunk, Operation::head_forward, head,
                                  joined({{Role::input, activation_into(chunk, head), Mode::read},
                                          {Role::tokens, draft.buffers.tokens, Mode::read},
                                          {Role::gathered, draft.buffers.gathered_rows, Mode::read},
                                          {Role::saved, draft.buffers.head_saved, shares_tokens(draft) ? Mode::read : Mode::write},
                                          {Role::logits, draft.buffers.logits, Mode::write},
                                          {Role::stats, draft.buffers.stats, Mode::write}},
                                         {weights_of(draft, chunk, head, false), token_embedding_table(draft, false)}));
  if (draft.slots.tensor >= 0) {
    Instruction gather;
    gather.name = "gather stats";
    gather.work = Collective{CollectiveKind::all_gather, draft.slots.tensor, {std::int64_t{draft.in.plan.length} * Bytes{3 * 4}, {}}, {}};
    gather.queue = Queue::reduce;
    gather.accesses = {{Role::stats, draft.buffers.stats, Mode::read}, {Role::gathered_stats, draft.buffers.gathered, Mode::write}};
    gather.waits = {{forward, 0}};
    let_next_wait_for(draft, add_instruction(draft, std::move(gather)));
  }
  add_compute(draft, chunk, Operation::head_loss, head,
              joined({{Role::gathered_stats, draft.buffers.gathered, Mode::read},
                      {Role::tokens, draft.buffers.tokens, Mode::read},
                      {Role::scalars, draft.buffers.scalars, Mode::update}},
                     {}));
}

void add_backward_phase(ClassDraft& draft, ChunkDraft& chunk) {
  if (!goes_back(draft, chunk)) return;
  add_receive_gradient(draft, chunk);
  if (has_head(draft, chunk)) {
    add_head_phase(draft, chunk);
    const int head = draft.in.plan.model.layers() - 1;
    const bool whole = !splits_backward(draft);
    const int backward =
        add_compute(draft, chunk, whole ? Operation::head_backward : Operation::head_backward_input, head,
                    joined({{Role::logits, draft.buffers.logits, Mode::update},
                            {Role::gathered_stats, draft.buffers.gathered, Mode::read},
                            {Role::tokens, draft.buffers.tokens, Mode::read},
                            {Role::input, whole ? activation_into(chunk, head) : -1, Mode::read},
                            {Role::gathered, draft.buffers.gathered_rows, Mode::read},
                            {Role::saved, whole ? draft.buffers.head_saved : -1, Mode::read},
                            {Role::partial, draft.buffers.partial, Mode::write}},
                           {weights_of(draft, chunk, head, whole && !draft.in.plan.model.tied_head), token_embedding_table(draft, whole)}));
    let_next_wait_for(draft, sum_partial(draft, head, backward, true));
    add_compute(draft, chunk, Operation::head_end_backward, head,
                joined({{Role::partial, draft.buffers.partial, Mode::read},
                        {Role::saved, draft.buffers.head_saved, Mode::read},
                        {Role::input, activation_into(chunk, head), Mode::read},
                        {Role::gradient, chunk.gradient, Mode::write}},
                       {weights_of(draft, chunk, head, true)}));
  }
  for (int layer = last_block(draft, chunk); layer >= first_block_back(draft, chunk); --layer) {
    if (recomputes_blocks(draft, chunk)) add_block_forward(draft, chunk, layer, true);
    if (drops_cheap(draft, chunk)) add_block_again(draft, chunk, layer);
    if (layer == last_block(draft, chunk) && !has_head(draft, chunk)) let_next_wait_for_arrival(draft, chunk.receive_gradient);
    add_block_backward(draft, chunk, layer);
  }
  if (has_embedding(chunk) && draft.first_trained == 0) {
    if (first_block(chunk) > last_block(draft, chunk) && !has_head(draft, chunk)) let_next_wait_for_arrival(draft, chunk.receive_gradient);
    if (shares_tokens(draft))
      add_begin(draft, chunk, Operation::embedding_begin_backward, 0,
                joined({{Role::gradient, chunk.gradient, Mode::update},
                        {Role::saved, saved_of(chunk, 0), Mode::read},
                        {Role::partial, draft.buffers.partial, Mode::write}},
                       {weights_of(draft, chunk, 0, true), starts_of_positions(draft, chunk)}),
                false, {draft.buffers.partial});
    add_compute(draft, chunk, Operation::embedding_backward, 0,
                joined({{Role::gradient, chunk.gradient, Mode::update},
                        {Role::tokens, draft.buffers.tokens, Mode::read},
                        {Role::saved, saved_of(chunk, 0), Mode::read},
                        {Role::partial, shares_tokens(draft) ? draft.buffers.partial : -1, Mode::read}},
                       {weights_of(draft, chunk, 0, true), token_embedding_table(draft, true),
                        shares_tokens(draft) ? std::vector<Access>{} : starts_of_positions(draft, chunk)}));
  }
  add_send_gradient(draft, chunk);
  if (splits_backward(draft)) add_weights_halves(draft, chunk);
}

}  // namespace flotilla::program
