#pragma once
#include <vector>

#include "flotilla/plan/plan.hpp"

namespace flotilla::search::pool {

/// The same devices and shares under what sketches do not say: sequence parallelism, GPipe, zero-bubble, two chunks of layers a device
/// (interleaved 1F1B); of a plan that is interleaved already none. Runtimes refuse what they do not know.
std::vector<plan::Plan> variants_of(const plan::Plan&);

}  // namespace flotilla::search::pool
