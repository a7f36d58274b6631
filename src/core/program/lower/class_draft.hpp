#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "chunk_loops.hpp"
#include "flotilla/program/program.hpp"
#include "index.hpp"
#include "rank_kind.hpp"

/// What a class is while it is lowered: plain values that the functions of class_parts, class_buffers, phases, messages, weights_halves and
/// closing fill in turn (build_class.hpp).
namespace flotilla::program {

constexpr Bytes fp32_size{4}, fp64_size{8};

/// What a class is lowered from.
struct ClassInput {
  const plan::Plan& plan;
  const std::vector<model::Tensor>& tensors;
  const Runtime& runtime;
  Purpose purpose = Purpose::training;
  ClassKey kind;
  int tensor_index = 0;
  int cache = 0;  ///< tokens of a sequence whose keys and values are kept
};

/// What is a chunk's own: a stage's layers, buffers and instructions.
struct ChunkDraft {
  int chunk = 0;
  plan::Stage stage;                            ///< its layers and recomputation, without replicas
  std::vector<int> forward, backward, weights;  ///< phases
  /// Buffers by layer - first_layer; activations: those entering that layer, one more than layers.
  std::vector<int> activations, saved, kept, dropped, caches;
  std::vector<int> layer_parts;  ///< likewise: index into RankClass::parts
  int gradient = -1;             ///< buffer
  int document_starts = -1;      ///< buffer; -1: the chunk does not ask where documents begin
  /// Instructions that bring an activation or a gradient: messages, then the gathering of their pieces where tensors are cut.
  std::vector<int> receive_activation, receive_gradient;
  std::vector<int> send_activation, send_gradient;
};

/// Buffers that the chunks of a class share; -1: it has none.
struct ClassBuffers {
  int tokens = -1, partial = -1, workspace = -1, logits = -1, stats = -1, gathered = -1, scalars = -1, totals = -1;
  int staging = -1, sum_staging = -1;       ///< of the tensor-parallel group's collectives, of a step's sums
  int shared_saved = -1, head_saved = -1;   ///< of blocks that are computed again in turn; of the head
  int discard = -1, again = -1;             ///< outputs and intermediates that are computed again
  int gathered_rows = -1;                   ///< tokens of all members, where they are shared between products
  int partial_ahead = -1, rows_ahead = -1;  ///< the same for the next weights' half
  std::vector<std::vector<int>> packed;     ///< by turn (two, used alternately) and group
};

struct ClassDraft {
  const ClassInput& in;
  Slots slots;
  RankClass out;
  ClassBuffers buffers;
  std::vector<ChunkDraft> chunks;
  std::vector<int> opening, closing;
  std::vector<int> forward, backward, weights;  ///< of all chunks, once their phases are whole: in the order of the layers, and back
  std::vector<int>* phase = nullptr;            ///< where add_instruction appends
  std::vector<Wait> next_waits;                 ///< of the next compute instruction
  int token_embedding_part = -1;                ///< index into RankClass::parts
  int first_trained = 0;                        ///< model::first_trained_layer
  std::vector<int> whole_sums;                  ///< by part: sums the members' parts of gradients (add_whole_sums); -1: nothing to sum
};
/// Its chunks' layers, its shape and its microbatches; everything else is empty.
ClassDraft draft_of(const ClassInput&);

inline int chunk_count(const ClassDraft& draft) { return static_cast<int>(draft.chunks.size()); }
inline int stage_index(const ClassDraft& draft, const ChunkDraft& chunk) {
  return draft.in.kind.stage + chunk.chunk * plan::own_stages(draft.in.plan);
}
/// All stages stand on one stage of devices: a chunk works on what the one before left in place.
inline bool in_place(const ClassDraft& draft) { return plan::own_stages(draft.in.plan) == 1; }
/// Gradients and moments have their places, though only training uses them.
inline bool keeps_state(const ClassDraft& draft) { return draft.in.purpose != Purpose::inference; }
inline bool is_training(const ClassDraft& draft) { return draft.in.purpose == Purpose::training; }
inline bool splits_backward(const ClassDraft& draft) { return draft.in.kind.order.splits() && is_training(draft); }
/// Between products each member of the tensor-parallel group holds its part of the tokens.
inline bool shares_tokens(const ClassDraft& draft) { return draft.out.shape.sequence_parallel; }

/// Members of a tensor-parallel group hold it whole, and their gradients of it are summed: each is of its own tokens, or its own heads.
/// The same in every replica, whatever its degree: what replicas sum is packed in the order of parts.
inline bool is_summed(const ClassDraft& draft, const model::Tensor& tensor) {
  return tensor.summed || (draft.in.plan.sequence_parallel && tensor.axis == model::Axis::none);
}

inline bool has_embedding(const ChunkDraft& chunk) { return chunk.stage.first_layer == 0; }
inline bool has_head(const ClassDraft& draft, const ChunkDraft& chunk) { return chunk.stage.last_layer == draft.in.plan.model.layers(); }
inline bool recomputes_blocks(const ClassDraft& draft, const ChunkDraft& chunk) {
  return chunk.stage.recompute == plan::Recompute::full && is_training(draft);
}
/// Blocks drop what is cheap to compute again.
inline bool drops_cheap(const ClassDraft& draft, const ChunkDraft& chunk) {
  return chunk.stage.recompute == plan::Recompute::selective && is_training(draft);
}
int first_block(const ChunkDraft&);
int last_block(const ClassDraft&, const ChunkDraft&);  ///< first_block() > last_block() when the stage has none
/// The first block that backward passes go through: below the first trained layer no gradient is needed. Above last_block() where none is.
inline int first_block_back(const ClassDraft& draft, const ChunkDraft& chunk) { return std::max(first_block(chunk), draft.first_trained); }
/// Whether a gradient comes to the chunk's last layer.
inline bool goes_back(const ClassDraft& draft, const ChunkDraft& chunk) { return draft.first_trained < chunk.stage.last_layer; }

/// Of a layer of the chunk: index into RankClass::buffers; -1: none.
inline int at_layer(const std::vector<int>& by_layer, const ChunkDraft& chunk, int layer) {
  return by_layer[at(layer - chunk.stage.first_layer)];
}
inline int activation_into(const ChunkDraft& chunk, int layer) { return at_layer(chunk.activations, chunk, layer); }
inline int kept_of(const ChunkDraft& chunk, int layer) { return at_layer(chunk.kept, chunk, layer); }
inline int cache_of(const ChunkDraft& chunk, int layer) { return at_layer(chunk.caches, chunk, layer); }
inline int saved_of(const ChunkDraft& chunk, int layer) { return at_layer(chunk.saved, chunk, layer); }
inline int part_of_layer(const ChunkDraft& chunk, int layer) { return at_layer(chunk.layer_parts, chunk, layer); }
/// What a block drops and computes again: in the forward pass's repetition; for the backward pass of a layer, where that is split until
/// the weights' half has read it.
inline int again_of(const ClassDraft& draft, const ChunkDraft& chunk) { return drops_cheap(draft, chunk) ? draft.buffers.again : -1; }
inline int again_of(const ClassDraft& draft, const ChunkDraft& chunk, int layer) {
  return splits_backward(draft) ? at_layer(chunk.dropped, chunk, layer) : again_of(draft, chunk);
}

}  // namespace flotilla::program
