#pragma once
#include <algorithm>
#include <cmath>
#include <span>

#include "flotilla/weights/export.hpp"
#include "sources.hpp"

/// Private: what a precision takes of trained norms, so that an export can say it.
namespace flotilla::weights {

/// Counts the weights of a vector that are not 1 and become it. Numbers above 1 are 2^-7 apart in bf16 and 2^-10 in fp16, those below half
/// of that, and the ones half-way are rounded to 1.
inline void count_rounded_back(const TensorSource& source, std::span<const float> values, Precision precision, ExportReport& report) {
  if (source.shape.size() != 1 || precision == Precision::fp32) return;
  const double above = precision == Precision::bf16 ? 0x1p-8 : 0x1p-11;
  for (const float value : values) {
    const double moved = double{value} - 1;
    if (moved == 0 || moved > above || moved < -above / 2) continue;
    ++report.norms_rounded_back;
    report.moved_most = std::max(report.moved_most, std::abs(moved));
  }
}

}  // namespace flotilla::weights
