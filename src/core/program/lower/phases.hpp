#pragma once
#include "class_draft.hpp"

/// Passes of a chunk: what it computes forward and backward, and what stands before the first of them.
namespace flotilla::program {

/// Zeroes what accumulates over the step.
void add_opening_phase(ClassDraft& draft);
void add_forward_phase(ClassDraft& draft, ChunkDraft& chunk);
/// Up to the loss.
void add_head_phase(ClassDraft& draft, const ChunkDraft& chunk);
void add_backward_phase(ClassDraft& draft, ChunkDraft& chunk);

}  // namespace flotilla::program
