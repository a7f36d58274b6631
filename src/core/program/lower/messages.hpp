#pragma once
#include "class_draft.hpp"

/// What a chunk sends to the stages beside it and receives from them, and what their buffers wait for.
namespace flotilla::program {

/// The next compute instruction waits for what these receives bring.
void let_next_wait_for_arrival(ClassDraft& draft, const std::vector<int>& instructions);
void add_receive_activation(ClassDraft& draft, ChunkDraft& chunk);
void add_receive_gradient(ClassDraft& draft, ChunkDraft& chunk);
void add_send_activation(ClassDraft& draft, ChunkDraft& chunk);
void add_send_gradient(ClassDraft& draft, ChunkDraft& chunk);
/// What a queue must not overwrite before another queue is done with it: the same instance, `copies` microbatches ago.
void close_waits(ClassDraft& draft, const ChunkDraft& chunk);

}  // namespace flotilla::program
