#pragma once
#include "flotilla/program/program.hpp"

namespace flotilla::program {

/// Bytes of the parameters and moments (fp32) that a rank writes into a checkpoint, exactly: what a copy of them takes that an asynchronous
/// save is made from. Frozen tensors have no moments. Over all ranks they sum to the training state.
Bytes checkpoint_share(const Program&, Rank);

}  // namespace flotilla::program
