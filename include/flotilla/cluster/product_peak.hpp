#pragma once
#include "flotilla/base/precision.hpp"
#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {

/// A type's peak for products of a precision, 0 where it is unknown. fp16 and bf16 run on the same units: where fp16 has none of its own,
/// it has bf16's.
inline FlopsPerSecond product_peak(const DeviceType& type, Precision precision) {
  if (precision == Precision::fp32) return type.peak_fp32;
  return precision == Precision::fp16 && type.peak_fp16.value > 0 ? type.peak_fp16 : type.peak_bf16;
}

/// What a device of the type is made for: products of 16 bits on GPUs that have them, bf16 before fp16; else fp32.
inline Precision made_for(const DeviceType& type) {
  if (type.kind == DeviceKind::cpu) return Precision::fp32;
  if (type.peak_bf16.value > 0) return Precision::bf16;
  return type.peak_fp16.value > 0 ? Precision::fp16 : Precision::fp32;
}

}  // namespace flotilla::cluster
