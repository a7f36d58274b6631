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

/// 10 * major + minor of what kernels run on: here all instructions are there.
inline int architecture() { return 90; }

inline void* take(std::size_t bytes) { return std::aligned_alloc(16, bytes); }
inline void give_back(void* memory) { std::free(memory); }

#define FLOTILLA_DECLARE_ELEMENT(name, S, E, ...) extern "C" void name##S(__VA_ARGS__);
#define FLOTILLA_DECLARE(name, ...) extern "C" void name(__VA_ARGS__);
#define FLOTILLA_DECLARE_FOR(S, E, MORE) FLOTILLA_ELEMENT_KERNELS(FLOTILLA_DECLARE_ELEMENT, S, E) MORE(FLOTILLA_DECLARE_ELEMENT, S, E)
FLOTILLA_ELEMENT_TYPES(FLOTILLA_DECLARE_FOR)
FLOTILLA_PLAIN_KERNELS(FLOTILLA_DECLARE)
#undef FLOTILLA_DECLARE_FOR
#undef FLOTILLA_DECLARE_ELEMENT
#undef FLOTILLA_DECLARE

/// Kernels<E>::name is name_f32, name_bf16 or name_f16.
template <class E>
struct Kernels;
#define FLOTILLA_MEMBER(name, S, E, ...) static constexpr void (*name)(__VA_ARGS__) = &cuda::name##S;
#define FLOTILLA_KERNELS_OF(S, E, MORE)             \
  template <>                                       \
  struct Kernels<E> {                               \
    FLOTILLA_ELEMENT_KERNELS(FLOTILLA_MEMBER, S, E) \
    MORE(FLOTILLA_MEMBER, S, E)                     \
  };
FLOTILLA_ELEMENT_TYPES(FLOTILLA_KERNELS_OF)
#undef FLOTILLA_KERNELS_OF
#undef FLOTILLA_MEMBER

}  // namespace flotilla::compute::cuda
