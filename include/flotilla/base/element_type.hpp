#pragma once
#include <cstdint>

#include "flotilla/base/precision.hpp"

namespace flotilla {

/// What messages and sums consist of.
enum class ElementType : std::uint8_t { fp32, bf16, fp16, fp64 };

constexpr Bytes element_size(ElementType type) { return {type == ElementType::fp32 ? 4 : type == ElementType::fp64 ? 8 : 2}; }
constexpr ElementType element_type(Precision p) {
  return p == Precision::fp32 ? ElementType::fp32 : p == Precision::bf16 ? ElementType::bf16 : ElementType::fp16;
}

}  // namespace flotilla
