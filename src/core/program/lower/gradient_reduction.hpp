#pragma once
#include "class_draft.hpp"

/// A step's gradients: summed over the replicas, packed where their shards do not line up, and their norm.
namespace flotilla::program {

/// Others' contributions to any part's sum, packed or not.
Bytes sum_staging(const ClassDraft& draft);
/// Where shards do not line up, what a group sums is packed first.
void add_packed_buffers(ClassDraft& draft);
/// Of the part, or of the rank's share of it; after `reduction`, -1: at once.
void add_norm(ClassDraft& draft, int part, int reduction, int share = -1);
/// Of tensors that every member of the tensor-parallel group holds whole, and has a part of the gradient of: that of its own tokens, where
/// they are shared, or of its own heads (model::Tensor::summed).
void add_whole_sums(ClassDraft& draft);
/// The first elements of a part, which that sum is of; 0: none.
std::int64_t whole_sum_elements(const ClassDraft& draft, const Part& part);
void add_part_reductions(ClassDraft& draft);

}  // namespace flotilla::program
