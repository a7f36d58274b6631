#pragma once
// Kernels as functions of the host, compiled from the product's sources (shim).
#include <cstdlib>

#include "host_gpu.hpp"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#include "signatures.hpp"

namespace flotilla::compute::cuda {

inline void* take(std::size_t bytes) { return std::aligned_alloc(16, bytes); }
inline void give_back(void* memory) { std::free(memory); }

#define FLOTILLA_DECLARE_ELEMENT(name, S, E, ...) extern "C" void name##S(__VA_ARGS__);
#define FLOTILLA_DECLARE(name, ...) extern "C" void name(__VA_ARGS__);
FLOTILLA_ELEMENT_KERNELS(FLOTILLA_DECLARE_ELEMENT, _f32, float)
FLOTILLA_ELEMENT_KERNELS(FLOTILLA_DECLARE_ELEMENT, _bf16, bfloat16)
FLOTILLA_PLAIN_KERNELS(FLOTILLA_DECLARE)
#undef FLOTILLA_DECLARE_ELEMENT
#undef FLOTILLA_DECLARE

/// kernel<E>::name is name_f32 or name_bf16.
template <class E>
struct Kernels;
#define FLOTILLA_MEMBER(name, S, E, ...) static constexpr void (*name)(__VA_ARGS__) = &cuda::name##S;
template <>
struct Kernels<float> {
  FLOTILLA_ELEMENT_KERNELS(FLOTILLA_MEMBER, _f32, float)
};
template <>
struct Kernels<bfloat16> {
  FLOTILLA_ELEMENT_KERNELS(FLOTILLA_MEMBER, _bf16, bfloat16)
};
#undef FLOTILLA_MEMBER

}  // namespace flotilla::compute::cuda
