#pragma once
#include "class_draft.hpp"

/// The optimizer's updates: of whole parts, or of this rank's shards with the weights gathered afterwards (ZeRO-1). What a shard is, the
/// sum says (hierarchical_all_reduce.hpp); where shards do not line up it is a share of what is packed.
namespace flotilla::program {

/// After the last instruction of the closing phase, which has the totals.
void add_optimizer(ClassDraft& draft);

}  // namespace flotilla::program
