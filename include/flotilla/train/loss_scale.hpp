#pragma once
#include "flotilla/checkpoint/loss_scale.hpp"

/// Dynamic loss scaling (Micikevicius et al. 2018), with the numbers of PyTorch's GradScaler: halved where a gradient overflows, doubled
/// after 2000 updates without. Pure functions of what all ranks know, so all ranks have the same scale.
namespace flotilla::train {

using checkpoint::LossScale;

inline constexpr std::int64_t loss_scale_interval = 2000;
inline constexpr std::int64_t smallest_loss_scale = 1, largest_loss_scale = 1 << 24;

LossScale after_update(LossScale);
LossScale after_overflow(LossScale);

}  // namespace flotilla::train
