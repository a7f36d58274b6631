#include "class_draft.hpp"

#include <algorithm>

namespace flotilla::program {
namespace {

model::LayerShape shape_of(const ClassInput& in) {
  const bool shares = in.plan.sequence_parallel && in.kind.tensor_parallel > 1;
  return {in.kind.microbatch, in.plan.length, in.kind.tensor_parallel, in.tensor_index, in.plan.precision, shares, in.cache};
}

ChunkDraft chunk_draft(const ClassInput& in, int chunk) {
  const auto& stage = in.plan.stages[static_cast<std::size_t>(in.kind.stage + chunk * plan::own_stages(in.plan))];
  ChunkDraft draft;
  draft.chunk = chunk;
  draft.stage = {stage.first_layer, stage.last_layer, stage.recompute, {}};
  return draft;
}

}  // namespace

ClassDraft draft_of(const ClassInput& in) {
  ClassDraft draft{.in = in,
                   .slots = slots_of(in.kind),
                   .out = {},
                   .buffers = {},
                   .chunks = {},
                   .opening = {},
                   .closing = {},
                   .forward = {},
                   .backward = {},
                   .weights = {},
                   .next_waits = {},
                   .whole_sums = {}};
  draft.first_trained = model::first_trained_layer(in.plan.model, in.tensors);
  for (int chunk = 0; chunk < in.plan.chunks; ++chunk) draft.chunks.push_back(chunk_draft(in, chunk));
  constexpr std::size_t of_layer = 16, of_class = 64;  // more than there mostly are
  std::size_t layers = 0;
  for (const ChunkDraft& chunk : draft.chunks) layers += static_cast<std::size_t>(chunk.stage.last_layer - chunk.stage.first_layer);
  draft.out.instructions.reserve(of_layer * layers + of_class);
  draft.out.stage = in.kind.stage;
  draft.out.device_type = in.kind.device_type;
  draft.out.shape = shape_of(in);
  draft.out.microbatches = (in.kind.sequences + in.kind.microbatch - 1) / in.kind.microbatch;
  draft.out.last_sequences = in.kind.sequences - std::max(0, draft.out.microbatches - 1) * in.kind.microbatch;
  return draft;
}

int first_block(const ChunkDraft& chunk) { return std::max(chunk.stage.first_layer, 1); }
int last_block(const ClassDraft& draft, const ChunkDraft& chunk) {
  return std::min(chunk.stage.last_layer - 1, draft.in.plan.model.blocks);
}

}  // namespace flotilla::program
