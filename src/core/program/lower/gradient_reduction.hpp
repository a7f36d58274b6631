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
/// Where tokens are shared: of gradients that every member of the tensor-parallel group holds whole.
void add_whole_sums(ClassDraft& draft);
void add_part_reductions(ClassDraft& draft);

}  // namespace flotilla::program
