// Linear layers with their low-rank adapters, as cpu/adapters.cpp.
#include "operations.hpp"

namespace flotilla::compute::cuda {

using model::Linear;

template <class E>
E* CudaOperations<E>::low_rank_input(const Frame& f, Linear linear, const E* x) {
  const auto& a = *adapter(linear);
  E* low = f.take(f.n * a.width());
  multiply(cpu::adapter_low(setup_.precision, f.n, a, adapter_scale_), {.a = x, .b = f.weight(cpu::lora_a(linear)), .c = low});
  return low;
}

/// The adapter's product comes first: bias and ReLU ride on the layer's own.
template <class E>
void CudaOperations<E>::run_linear(const Frame& f, Linear linear, ProductSpec product, const E* x, const E* bias, E* y) {
  if (const auto& a = adapter(linear)) {
    const E *low = low_rank_input(f, linear, x), *b = f.weight(cpu::lora_b(linear));
    for (const auto& piece : a->pieces)
      multiply(cpu::adapter_output(setup_.precision, f.n, *a, piece),
               {.a = low + piece.part * a->rank, .b = b + piece.first * a->rank, .c = y + piece.first});
    product.accumulate = true;
  }
  multiply(product, {.a = x, .b = f.weight(cpu::weight_of(linear)), .bias = bias, .c = y});
}

template <class E>
auto CudaOperations<E>::back_into(const Frame& f, Linear linear, const E* gradient) -> Back {
  const auto& a = adapter(linear);
  if (!a) return {gradient, nullptr};
  E* low = f.take(f.n * a->width());
  const E* b = f.weight(cpu::lora_b(linear));
  for (std::size_t i = 0; i < a->pieces.size(); ++i) {
    const auto& piece = a->pieces[i];
    multiply(cpu::adapter_low_gradient(setup_.precision, f.n, *a, i, adapter_scale_),
             {.a = gradient + piece.first, .b = b + piece.first * a->rank, .c = low + piece.part * a->rank});
  }
  return {gradient, low};
}

template <class E>
void CudaOperations<E>::input_gradient(const Frame& f, Linear linear, const ProductSpec& product, Back back, E* dx) {
  multiply(product, {.a = back.gradient, .b = f.weight(cpu::weight_of(linear)), .c = dx});
  if (back.low == nullptr) return;
  multiply(cpu::adapter_input_gradient(setup_.precision, f.n, *adapter(linear), product.c_row),
           {.a = back.low, .b = f.weight(cpu::lora_a(linear)), .c = dx});
}

template <class E>
void CudaOperations<E>::add_gradients(const Frame& f, Linear linear, Back back, const E* x) {
  const auto& widths = widths_[static_cast<std::size_t>(linear)];
  add_weight_gradient(f, cpu::linear_weight_gradient(setup_.precision, f.n, widths.out, widths.in), back.gradient, x,
                      cpu::weight_of(linear));
  const auto& a = adapter(linear);
  if (!a) return;
  add_weight_gradient(f, cpu::linear_weight_gradient(setup_.precision, f.n, a->width(), a->in), back.low, x, cpu::lora_a(linear));
  const E* low = low_rank_input(f, linear, x);
  float* sum = f.gradient(cpu::lora_b(linear));
  if (sum == nullptr) return;
  for (const auto& piece : a->pieces)
    multiply(cpu::adapter_b_gradient(setup_.precision, f.n, *a, piece),
             {.a = back.gradient + piece.first, .b = low + piece.part * a->rank, .c = sum + piece.first * a->rank});
}

#define FLOTILLA_INSTANTIATE(E)                                                                                           \
  template void CudaOperations<E>::run_linear(const Frame&, Linear, ProductSpec, const E*, const E*, E*);                 \
  template CudaOperations<E>::Back CudaOperations<E>::back_into(const Frame&, Linear, const E*);                          \
  template void CudaOperations<E>::input_gradient(const Frame&, Linear, const ProductSpec&, CudaOperations<E>::Back, E*); \
  template void CudaOperations<E>::add_gradients(const Frame&, Linear, CudaOperations<E>::Back, const E*);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cuda
