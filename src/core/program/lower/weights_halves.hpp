#pragma once
#include "class_draft.hpp"

/// The weights' halves of split backward passes (core/schedule/zero_bubble.cpp).
namespace flotilla::program {

/// The head's at once, since deferred ones would need logits each; the blocks' in a phase of their own where they are deferred.
void add_weights_halves(ClassDraft& draft, ChunkDraft& chunk);
/// In the order in which backward passes go through the layers.
std::vector<std::vector<int>> weights_by_layer(const ClassDraft& draft);

}  // namespace flotilla::program
