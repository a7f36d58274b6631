#pragma once
#include "class_draft.hpp"

/// Parameters that are reduced and updated together, with whom, and what they are kept in.
namespace flotilla::program {

/// Of the layers of a chunk.
void add_parts(ClassDraft& draft, ChunkDraft& chunk);
/// The token embedding, which the embedding and the head share: after the parts of all layers.
void add_token_embedding_part(ClassDraft& draft);
/// With whom the gradients of a part are summed, and by which group slots.
const Summing& summing_of(const ClassDraft& draft, int part);
const std::vector<int>& slots_of_part(const ClassDraft& draft, int part);
/// What a group sums of a part; `part` is the index that it has, or will have.
std::vector<Region> shared_regions_of(const ClassDraft& draft, const Part& about, int part, const GradientGroup& group);
/// Whether those who sum the part share its optimizer out among them (ZeRO-1).
bool is_sharded(const ClassDraft& draft, int part);

}  // namespace flotilla::program
