#pragma once
#include <cstdint>

namespace flotilla::checkpoint {

/// What the loss is multiplied with before the backward pass in fp16, whose smallest number is 2^-24: part of the training state.
struct LossScale {
  std::int64_t value = 65536;   ///< a power of two, so it changes no digits
  std::int64_t good_steps = 0;  ///< updates in a row since it changed
  bool operator==(const LossScale&) const = default;
};

}  // namespace flotilla::checkpoint
