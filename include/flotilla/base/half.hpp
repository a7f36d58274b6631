#pragma once
#include <cstdint>

/// IEEE 754 binary16 (fp16) as 16 bits, to and from fp32. `static`, and without standard headers that have inline functions: kernels are
/// compiled for several instruction sets, and each keeps its own copy. Written without branches, so that loops vectorize.
namespace flotilla {

/// Exact; a NaN stays one.
static constexpr float half_to_float(std::uint16_t half) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffu) << 13, sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  // The exponent's bias is 112 higher in fp32. The product makes a subnormal number normal.
  const float finite = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const std::uint32_t bits = magnitude >= 0x7c00u << 13 ? magnitude | 0x7f800000u : __builtin_bit_cast(std::uint32_t, finite);
  return __builtin_bit_cast(float, bits | sign);
}

/// To nearest, ties to even. From 65520 on it is infinity; NaN becomes the quiet one without a sign.
static constexpr std::uint16_t half_from_float(float v) {
  const std::uint32_t all = __builtin_bit_cast(std::uint32_t, v), sign = all & 0x80000000u, bits = all ^ sign;
  // Adding 0.5 puts a number below 2^-14 at the place of its last bit, and rounds it there.
  const std::uint32_t subnormal =
      __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, bits < 0x38800000u ? bits : 0u) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (bits - (112u << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
  const std::uint32_t finite = bits < 0x38800000u ? subnormal : normal;
  const std::uint32_t rounded = bits > 0x7f800000u ? 0x7e00u : bits >= 0x477ff000u ? 0x7c00u : finite;
  return static_cast<std::uint16_t>(rounded | (bits > 0x7f800000u ? 0u : sign >> 16));
}

}  // namespace flotilla
