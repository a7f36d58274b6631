#pragma once
#include "products.hpp"

/// Products of fp16, which oneDNN multiplies on the newest processors only: operands are widened into the scratchpad, multiplied in fp32, and
/// the result is narrowed. Slow, and with the bits of a product whose sums are fp32: the reference of what GPUs do.
namespace flotilla::compute::cpu {

/// The product in fp32 that a product of fp16 becomes, and the bytes where its operands are in the scratchpad.
struct WidenedProduct {
  ProductSpec spec;  ///< of operands without gaps between rows; c is the caller's where that is fp32
  std::int64_t a = 0, b = 0, bias = 0, c = 0, end = 0;
};

/// Operands are placed from `first` on, the bytes of the scratchpad that oneDNN uses.
WidenedProduct widened(const ProductSpec&, std::int64_t first);
/// Fills the copies, on `threads` threads. The result: the operands of the product in fp32.
ProductOperands widen(const ProductSpec&, const WidenedProduct&, const ProductOperands&, std::byte* scratch, int threads);
/// Writes the caller's c from its copy, where there is one.
void narrow(const ProductSpec&, const WidenedProduct&, const ProductOperands&, const std::byte* scratch, int threads);

}  // namespace flotilla::compute::cpu
