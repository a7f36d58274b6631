#include "class_buffers.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/model/block_end.hpp"
#include "flotilla/program/collectives.hpp"
#include "gradient_reduction.hpp"
#include "layout/layout.hpp"

namespace flotilla::program {
namespace {

/// Microbatches of the chunk between their two passes.
int chunk_in_flight(const ClassDraft& draft, const ChunkDraft& chunk) { return chunk_copies(draft, chunk).in_flight; }

int until_weights(const ClassDraft& draft, int copies) {
  return splits_backward(draft) ? std::min(std::max(copies, draft.out.microbatches), copies + draft.in.kind.order.deferred) : copies;
}

model::BlockLayout saved_layout(const ClassDraft& draft, const ChunkDraft& chunk) {
  return model::block_layout(draft.in.plan.model, draft.out.shape, drops_cheap(draft, chunk));
}

Bytes workspace_size(const ClassDraft& draft, const ChunkDraft& chunk) {
  using enum model::Operation;
  std::vector<model::Operation> operations;
  const auto use = [&](std::initializer_list<model::Operation> list) { operations.insert(operations.end(), list); };
  if (has_embedding(chunk)) use({embedding_forward, embedding_end_forward});
  if (first_block(chunk) <= last_block(draft, chunk)) use({attention_forward, mlp_forward, block_end_forward});
  if (has_head(draft, chunk)) use({head_forward, head_loss});
  if (is_training(draft)) {
    if (has_embedding(chunk)) use({embedding_begin_backward, embedding_backward});
    if (first_block(chunk) <= last_block(draft, chunk) && splits_backward(draft))
      use({mlp_begin_backward, mlp_backward_input, mlp_backward_weights, attention_begin_backward, attention_backward_input,
           attention_backward_weights, block_begin_backward});
    else if (first_block(chunk) <= last_block(draft, chunk))
      use({mlp_begin_backward, mlp_backward, attention_begin_backward, attention_backward, block_begin_backward});
    if (has_head(draft, chunk)) use({head_backward, head_end_backward});
  }
  Bytes most{};
  for (auto operation : operations)
    most = std::max(most, model::workspace(draft.in.plan.model, draft.out.shape, operation, draft.in.runtime.threads));
  return most;
}

/// Blocks ask for them, and a table of positions. Chunks in place work on one microbatch at a time, all of them.
void add_document_starts(ClassDraft& draft, ChunkDraft& chunk) {
  const bool positions = has_embedding(chunk) && draft.in.plan.model.has_position_table();
  if (!draft.in.runtime.separate_documents) return;
  if (!positions && first_block(chunk) > last_block(draft, chunk)) return;
  const auto before = std::ranges::find_if(draft.chunks, [](const ChunkDraft& other) { return other.document_starts >= 0; });
  chunk.document_starts = in_place(draft) && before != draft.chunks.end()
                              ? before->document_starts
                              : add_buffer(draft, "document starts" + chunk_suffix(draft, chunk), Category::activations,
                                           draft.out.shape.tokens() * Bytes{4}, chunk_in_flight(draft, chunk));
}

}  // namespace

int add_buffer(ClassDraft& draft, std::string name, Category category, Bytes size, int copies, bool persistent) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.category = category;
  buffer.size = size;
  buffer.copies = copies;
  buffer.persistent = persistent;
  buffer.stride = align_up(size, arena_alignment);
  draft.out.buffers.push_back(std::move(buffer));
  return static_cast<int>(draft.out.buffers.size()) - 1;
}

std::string chunk_suffix(const ClassDraft& draft, const ChunkDraft& chunk) {
  return chunk_count(draft) > 1 ? " " + std::to_string(chunk.chunk) : "";
}

schedule::ChunkCopies chunk_copies(const ClassDraft& draft, const ChunkDraft& chunk) {
  if (!draft.in.kind.copies.empty()) return draft.in.kind.copies[at(chunk.chunk)];
  const int pair = std::max(1, std::min(schedule::sent_copies, draft.out.microbatches)),
            in_flight = is_training(draft) ? draft.in.kind.order.in_flight : 1;
  return {in_flight, std::max(in_flight, pair), in_place(draft) ? 1 : pair};
}

void add_activations(ClassDraft& draft, ChunkDraft& chunk) {
  const Bytes size = draft.out.shape.rows() * draft.in.plan.model.hidden * element_size(draft.in.plan.precision);
  const int pair = std::max(1, std::min(schedule::sent_copies, draft.out.microbatches));
  for (int layer = chunk.stage.first_layer; layer <= chunk.stage.last_layer; ++layer) {
    const bool received = layer == chunk.stage.first_layer && !has_embedding(chunk);
    const bool sent = layer == chunk.stage.last_layer;
    const bool exists = layer > 0 && !(sent && has_head(draft, chunk));
    if (received && in_place(draft)) {
      chunk.activations.push_back(draft.chunks[at(chunk.chunk - 1)].activations.back());
      continue;
    }
    const bool multiplied = draft.in.plan.model.norm == model::NormPlacement::post && draft.in.plan.model.is_block(layer);
    const int held = multiplied && !sent ? until_weights(draft, chunk_in_flight(draft, chunk)) : chunk_in_flight(draft, chunk);
    const int copies = in_place(draft) ? held : sent ? pair : received ? std::max(held, chunk_copies(draft, chunk).received) : held;
    chunk.activations.push_back(exists ? add_buffer(draft, text("activation ", layer), Category::activations, size, copies) : -1);
  }
}

void add_caches(ClassDraft& draft, ChunkDraft& chunk) {
  const auto& model = draft.in.plan.model;
  const Bytes size = model::cache_size(model, draft.out.shape);
  for (int layer = chunk.stage.first_layer; layer < chunk.stage.last_layer; ++layer) {
    const bool exists = model.is_block(layer) && size.count > 0;
    chunk.caches.push_back(exists ? add_buffer(draft, text("cache ", layer), Category::activations, size, 1, true) : -1);
  }
}

void add_saved(ClassDraft& draft, ChunkDraft& chunk) {
  const auto& model = draft.in.plan.model;
  // Computed again, a block's intermediates are alive within a backward pass: in turn, or side by side until all weights have their
  // gradients.
  const bool shared = (recomputes_blocks(draft, chunk) && !splits_backward(draft)) || !is_training(draft);
  const int copies = recomputes_blocks(draft, chunk) ? until_weights(draft, 1) : until_weights(draft, chunk_in_flight(draft, chunk));
  for (int layer = chunk.stage.first_layer; layer < chunk.stage.last_layer; ++layer) {
    int buffer = -1, kept = -1, dropped = -1;
    if (model.is_block(layer)) {
      const Bytes size = saved_layout(draft, chunk).total;
      if (!shared)
        buffer = add_buffer(draft, text("saved ", layer), Category::activations, size, copies);
      else if (draft.buffers.shared_saved < 0)
        buffer = draft.buffers.shared_saved = add_buffer(draft, "saved", Category::activations, size);
      else
        buffer = draft.buffers.shared_saved;
      const Bytes gradients = splits_backward(draft) ? model::kept_layout(model, draft.out.shape).total : Bytes{};
      if (gradients.count > 0) kept = add_buffer(draft, text("kept ", layer), Category::activations, gradients, until_weights(draft, 1));
      if (splits_backward(draft) && drops_cheap(draft, chunk))
        dropped =
            add_buffer(draft, text("dropped ", layer), Category::activations, saved_layout(draft, chunk).again, until_weights(draft, 1));
    } else if (model.is_embedding(layer)) {
      const Bytes size = model::embedding_layout(model, draft.out.shape).total;
      if (size.count > 0) buffer = add_buffer(draft, "saved 0", Category::activations, size, chunk_in_flight(draft, chunk));
    } else {
      const Bytes size = model::head_layout(model, draft.out.shape).total;
      if (size.count > 0) buffer = draft.buffers.head_saved = add_buffer(draft, "saved head", Category::activations, size);
    }
    chunk.saved.push_back(buffer);
    chunk.kept.push_back(kept);
    chunk.dropped.push_back(dropped);
  }
}

void add_temporaries(ClassDraft& draft) {
  const auto& model = draft.in.plan.model;
  const std::int64_t tokens = draft.out.shape.tokens();
  const Bytes element = element_size(draft.in.plan.precision);
  const Bytes scalars = scalar::number(draft.in.runtime.sources) * fp64_size;
  draft.buffers.scalars = add_buffer(draft, "scalars", Category::workspace, scalars, 1, true);
  draft.buffers.totals = add_buffer(draft, "totals", Category::workspace, scalars, 1, true);
  if (draft.in.runtime.library_scratch.count > 0)
    draft.out.scratch = add_buffer(draft, "library scratch", Category::workspace, draft.in.runtime.library_scratch, 1, true);
  for (ChunkDraft& chunk : draft.chunks) {
    if (draft.buffers.tokens < 0 && (has_embedding(chunk) || has_head(draft, chunk)))
      draft.buffers.tokens =
          add_buffer(draft, "tokens", Category::activations,
                     draft.out.shape.sequences * (std::int64_t{draft.in.plan.length} + 1) * Bytes{4}, chunk_in_flight(draft, chunk));
  }
  for (ChunkDraft& chunk : draft.chunks) add_document_starts(draft, chunk);
  const Bytes partial = tokens * std::max(model.hidden, model.embedding_width) * element;
  draft.buffers.partial = add_buffer(draft, "partial", Category::workspace, partial);
  const Bytes rows = draft.out.shape.rows() * model.hidden * element;
  for (ChunkDraft& chunk : draft.chunks) {
    if (!is_training(draft)) continue;
    chunk.gradient = in_place(draft) && chunk.chunk > 0 ? draft.chunks.front().gradient
                                                        : add_buffer(draft, "gradient" + chunk_suffix(draft, chunk), Category::activations,
                                                                     rows, chunk_copies(draft, chunk).gradients);
    if (recomputes_blocks(draft, chunk) && model::end_keeps(model) && draft.buffers.discard < 0)
      draft.buffers.discard = add_buffer(draft, "discarded activation", Category::workspace, rows);
  }
  for (ChunkDraft& chunk : draft.chunks) {
    if (draft.buffers.gathered_rows < 0 && shares_tokens(draft) && (is_training(draft) || has_head(draft, chunk)))
      draft.buffers.gathered_rows = add_buffer(draft, "gathered rows", Category::communication, partial);
    if (draft.buffers.partial_ahead < 0 && shares_tokens(draft) && splits_backward(draft) &&
        first_block(chunk) <= last_block(draft, chunk)) {
      const Bytes all_rows = tokens * model.hidden * element;
      draft.buffers.partial_ahead = add_buffer(draft, "partial ahead", Category::communication, all_rows);
      draft.buffers.rows_ahead = add_buffer(draft, "gathered rows ahead", Category::communication, all_rows);
    }
    if (draft.buffers.again < 0 && drops_cheap(draft, chunk) && first_block(chunk) <= last_block(draft, chunk))
      draft.buffers.again = add_buffer(draft, "dropped", Category::activations, saved_layout(draft, chunk).again);
    if (!has_head(draft, chunk)) continue;
    const std::int64_t row = 3 * 4;
    draft.buffers.logits =
        add_buffer(draft, "logits", Category::workspace, tokens * model::logits_pitch(model, draft.out.shape) * fp32_size);
    draft.buffers.stats = add_buffer(draft, "stats", Category::workspace, {tokens * row});
    draft.buffers.gathered = draft.in.kind.tensor_parallel > 1 ? add_buffer(draft, "gathered stats", Category::communication,
                                                                            {tokens * row * draft.in.kind.tensor_parallel})
                                                               : draft.buffers.stats;
  }
  Bytes workspace;
  for (ChunkDraft& chunk : draft.chunks) workspace = std::max(workspace, workspace_size(draft, chunk));
  if (workspace.count > 0) draft.buffers.workspace = add_buffer(draft, "workspace", Category::workspace, workspace);
  if (draft.slots.tensor >= 0)
    draft.buffers.staging = add_buffer(
        draft, "staging", Category::communication,
        shares_tokens(draft)
            ? reduce_scatter_staging(tokens, std::max(model.hidden, model.embedding_width) * element, draft.in.kind.tensor_parallel)
            : all_reduce_staging(partial, element, draft.in.kind.tensor_parallel));
  Bytes staging = all_reduce_staging(scalars, fp64_size, plan::rank_count(draft.in.plan));
  if (is_training(draft)) staging = std::max(staging, sum_staging(draft));
  if (is_training(draft) && draft.slots.tensor >= 0)
    for (const Part& part : draft.out.parts)
      staging =
          std::max(staging, all_reduce_staging(whole_sum_elements(draft, part) * fp32_size, fp32_size, draft.in.kind.tensor_parallel));
  if (is_training(draft)) add_packed_buffers(draft);
  if (staging.count > 0) draft.buffers.sum_staging = add_buffer(draft, "sum staging", Category::communication, staging);
}

}  // namespace flotilla::program
