#pragma once
#include <vector>

#include "flotilla/model/config.hpp"

namespace flotilla::compute::cpu {

/// (length, rotated columns): of each position, the cosines of its angles, one for two columns, then their sines. Empty for a model that
/// does not rotate. Made once, when the backend is: 4 bytes for each position and column of one head. `of_windows`: those of blocks that
/// turn by window_theta; empty where none does.
std::vector<float> rotary_angles(const model::Config&, int length, bool of_windows = false);

}  // namespace flotilla::compute::cpu
