#pragma once
#include <vector>

#include "flotilla/model/config.hpp"

namespace flotilla::compute::cpu {

/// (length, head_size): of each position, the cosines of its head_size / 2 angles, then their sines. Empty for a model that does not
/// rotate. Made once, when the backend is: 4 bytes for each position and column of one head.
std::vector<float> rotary_angles(const model::Config&, int length);

}  // namespace flotilla::compute::cpu
