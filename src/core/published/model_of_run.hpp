#pragma once
#include "flotilla/model/config.hpp"
#include "flotilla/published/run.hpp"

namespace flotilla::published {

/// The run's transformer in our terms; a figure that the run does not state is its family's usual one. `vocabulary_multiple`: a runtime
/// pads the vocabulary to such a multiple.
model::Config model_of(const Run&, int vocabulary_multiple);

}  // namespace flotilla::published
