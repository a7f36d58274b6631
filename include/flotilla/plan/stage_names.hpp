#pragma once
#include <string>

#include "flotilla/plan/plan.hpp"

namespace flotilla::plan {

/// "stage 1", or of a device that holds several "stages 1, 5". `stage`: the first of them.
std::string stages_of_device_in_words(const Plan&, int stage);

}  // namespace flotilla::plan
