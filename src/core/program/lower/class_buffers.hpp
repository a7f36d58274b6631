#pragma once
#include <string>

#include "class_draft.hpp"

/// Buffers of activations, intermediates and exchanges, and how many microbatches they have room for.
namespace flotilla::program {

/// Index into RankClass::buffers.
int add_buffer(ClassDraft& draft, std::string name, Category category, Bytes size, int copies = 1, bool persistent = false);
/// Behind a name, where there are several chunks.
std::string chunk_suffix(const ClassDraft& draft, const ChunkDraft& chunk);
schedule::ChunkCopies chunk_copies(const ClassDraft& draft, const ChunkDraft& chunk);
/// The activation entering each layer of the stage, and the one leaving its last. What is sent is needed until it is sent; what a backward
/// pass reads is needed once for each microbatch in flight.
void add_activations(ClassDraft& draft, ChunkDraft& chunk);
/// Keys and values of the tokens before, where they are kept.
void add_caches(ClassDraft& draft, ChunkDraft& chunk);
void add_saved(ClassDraft& draft, ChunkDraft& chunk);
/// What the chunks share; after the parts.
void add_temporaries(ClassDraft& draft);

}  // namespace flotilla::program
