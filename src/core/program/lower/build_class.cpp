#include "build_class.hpp"

#include <algorithm>

#include "class_buffers.hpp"
#include "class_instructions.hpp"
#include "class_parts.hpp"
#include "gradient_reduction.hpp"
#include "layout/layout.hpp"
#include "messages.hpp"
#include "optimizer_phase.hpp"
#include "pass_loops.hpp"
#include "phases.hpp"
#include "weights_halves.hpp"

namespace flotilla::program {
namespace {

std::vector<ChunkInstructions> instructions_of_chunks(const ClassDraft& draft) {
  std::vector<ChunkInstructions> instructions;
  for (const ChunkDraft& chunk : draft.chunks) {
    ChunkInstructions& own = instructions.emplace_back();
    const auto add = [&](const std::vector<int>& phase, std::vector<int>& list) {
      for (int instruction : phase)
        if (!draft.out.instructions[at(instruction)].receives()) list.push_back(instruction);
    };
    add(chunk.forward, own.forward);
    add(chunk.backward, is_training(draft) ? own.backward : own.forward);
    own.receive_activation = chunk.receive_activation;
    own.receive_gradient = chunk.receive_gradient;
  }
  return instructions;
}

/// There in the order of the layers, and back.
void join_chunks(ClassDraft& draft) {
  for (const ChunkDraft& chunk : draft.chunks) {
    draft.forward.insert(draft.forward.end(), chunk.forward.begin(), chunk.forward.end());
    draft.backward.insert(draft.backward.begin(), chunk.backward.begin(), chunk.backward.end());
    draft.weights.insert(draft.weights.begin(), chunk.weights.begin(), chunk.weights.end());
  }
}

/// The last instruction that adds to the scalars, or -1.
int last_adding_scalars(const ClassDraft& draft) {
  int found = -1;
  for (const auto* phase : {&draft.forward, &draft.backward, &draft.closing})
    for (int s : *phase)
      for (const Access& access : draft.out.instructions[at(s)].accesses)
        if (access.buffer == draft.buffers.scalars) found = s;
  return found;
}

void add_closing_phase(ClassDraft& draft) {
  if (is_training(draft)) add_whole_sums(draft);
  if (is_training(draft)) add_part_reductions(draft);
  const int last_scalar = last_adding_scalars(draft);
  auto scalars = once_per_step(
      "reduce scalars",
      Collective{CollectiveKind::reduce_scalars, draft.slots.world, {{}, draft.out.buffers[at(draft.buffers.scalars)].size}, {}}, false);
  scalars.accesses = {{Role::scalars, draft.buffers.scalars, Mode::read}, {Role::totals, draft.buffers.totals, Mode::write}};
  if (draft.buffers.sum_staging >= 0) scalars.accesses.push_back({Role::staging, draft.buffers.sum_staging, Mode::write});
  scalars.waits = {{draft.opening.front(), last_run}};  // of itself enough where no microbatch runs
  if (last_scalar >= 0) scalars.waits.push_back({last_scalar, last_run});
  add_instruction(draft, std::move(scalars));
  if (is_training(draft)) add_optimizer(draft);
}

}  // namespace

RankClass build_class(const ClassInput& in) {
  ClassDraft draft = draft_of(in);
  for (ChunkDraft& chunk : draft.chunks) add_parts(draft, chunk);
  add_token_embedding_part(draft);
  for (ChunkDraft& chunk : draft.chunks) add_caches(draft, chunk);
  for (ChunkDraft& chunk : draft.chunks) add_activations(draft, chunk);
  for (ChunkDraft& chunk : draft.chunks) add_saved(draft, chunk);
  add_temporaries(draft);
  draft.phase = &draft.opening;
  add_opening_phase(draft);
  for (ChunkDraft& chunk : draft.chunks) {
    draft.phase = &chunk.forward;
    add_forward_phase(draft, chunk);
    draft.phase = &chunk.backward;
    if (is_training(draft))
      add_backward_phase(draft, chunk);
    else if (has_head(draft, chunk))
      add_head_phase(draft, chunk);
    close_waits(draft, chunk);
  }
  const auto chunks = instructions_of_chunks(draft);
  join_chunks(draft);
  draft.phase = &draft.closing;
  add_closing_phase(draft);
  draft.out.blocks =
      chunk_count(draft) == 1
          ? loops(draft.in.kind.order, is_training(draft),
                  Phases{draft.opening, draft.forward, draft.backward, draft.weights, draft.closing, weights_by_layer(draft)})
          : chunk_loops(draft.in.kind.steps, chunks, draft.opening, draft.closing);
  lay_out(draft.out, {&draft.forward, &draft.backward, &draft.weights});
  return std::move(draft.out);
}

}  // namespace flotilla::program
