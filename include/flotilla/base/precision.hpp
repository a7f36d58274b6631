#pragma once
#include <string>
#include <string_view>

#include "flotilla/base/units.hpp"

namespace flotilla {

/// What matrices are multiplied in. With bf16 and fp16 the master weights, gradients and optimizer state stay fp32. With fp16 the loss is
/// scaled (train/loss_scale.hpp).
enum class Precision { fp32, bf16, fp16 };

constexpr Bytes element_size(Precision p) { return {p == Precision::fp32 ? 4 : 2}; }
std::string to_string(Precision);
/// Throws Error{bad_input} naming the known ones.
Precision parse_precision(std::string_view);

}  // namespace flotilla
