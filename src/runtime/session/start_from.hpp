#pragma once
#include <filesystem>

#include "flotilla/comm/world.hpp"
#include "flotilla/session/run_config.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::session {

/// Fills the training state of a new run from the checkpoint that `run.from` names: the weights, and as `run.from_optimizer` says, the
/// optimizer's state, or moments of zero. What belongs to a Hugging Face model beside its weights is carried over to `run`. Collective over
/// the active ranks. Throws comm::AgreedError where that is no checkpoint, or one of another model, or of weights that have exploded.
void start_from_checkpoint(const comm::World& active, const RunConfig&, const std::filesystem::path& run, train::Trainer&);

}  // namespace flotilla::session
