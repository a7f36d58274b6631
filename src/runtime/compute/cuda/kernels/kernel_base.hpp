#pragma once
// What kernels are written with. nvcc compiles them for devices, and g++ for tests, with tests/standin/shim/host_gpu.hpp before them.
#include <cmath>
#include <cstdint>

#include "flotilla/base/half.hpp"
#include "flotilla/base/philox.hpp"
#include "signatures.hpp"

#if defined(__CUDACC__)
/// FLOTILLA_SHARED(float, sums, [8]): a block's shared variable.
#define FLOTILLA_SHARED(type, name, ...) __shared__ __align__(16) type name __VA_ARGS__
#define FLOTILLA_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#else
#define FLOTILLA_SHARED(type, name, ...) \
  static char name##_key;                \
  auto& name = *static_cast<type(*) __VA_ARGS__>(hostgpu::shared_variable(&name##_key, sizeof(type __VA_ARGS__)))
#define FLOTILLA_DYNAMIC_SHARED(name) auto* name = static_cast<unsigned char*>(hostgpu::dynamic_shared_memory())
#endif

namespace flotilla::compute::cuda {

#define FLOTILLA_DECLARE_ELEMENT_KERNEL(name, S, E, ...) extern "C" __global__ void name##S(__VA_ARGS__);
#define FLOTILLA_DECLARE_KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__);
#define FLOTILLA_DECLARE_FOR(S, E, MORE)                          \
  FLOTILLA_ELEMENT_KERNELS(FLOTILLA_DECLARE_ELEMENT_KERNEL, S, E) \
  MORE(FLOTILLA_DECLARE_ELEMENT_KERNEL, S, E)
FLOTILLA_ELEMENT_TYPES(FLOTILLA_DECLARE_FOR)
FLOTILLA_PLAIN_KERNELS(FLOTILLA_DECLARE_KERNEL)
#undef FLOTILLA_DECLARE_FOR
#undef FLOTILLA_DECLARE_ELEMENT_KERNEL
#undef FLOTILLA_DECLARE_KERNEL

inline constexpr unsigned all_lanes = 0xffffffffu;
inline constexpr int warp = 32;

__device__ inline int min(int a, int b) { return a < b ? a : b; }
__device__ inline int max(int a, int b) { return a < b ? b : a; }

__device__ inline float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
__device__ inline std::uint32_t as_bits(float v) { return __builtin_bit_cast(std::uint32_t, v); }

__device__ inline float widen(float v) { return v; }
__device__ inline float widen(bfloat16 v) { return as_float(static_cast<std::uint32_t>(v.bits) << 16); }

#if defined(__CUDACC__)
__device__ inline float widen(float16 v) {
  float to;
  asm("cvt.f32.f16 %0, %1;" : "=f"(to) : "h"(v.bits));
  return to;
}
__device__ inline void narrow(float v, float16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(v)); }
#else
inline float widen(float16 v) { return half_to_float(v.bits); }
inline void narrow(float v, float16& to) { to.bits = half_from_float(v); }
#endif

__device__ inline void narrow(float v, float& to) { to = v; }
__device__ inline void narrow(float v, bfloat16& to) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(v));
#else
  const std::uint32_t bits = as_bits(v);
  to.bits = static_cast<std::uint16_t>(v != v ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
template <class E>
__device__ E narrowed(float v) {
  E to;
  narrow(v, to);
  return to;
}

/// 16 bytes of elements, in one access where they are aligned and whole.
template <class E>
struct alignas(16) Pack {
  static constexpr int count = 16 / static_cast<int>(sizeof(E));
  E values[count];
};
template <class E>
__device__ bool aligned(const E* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}
template <class E>
__device__ Pack<E> load(const E* from, std::int64_t left) {
  Pack<E> pack;
  if (left >= Pack<E>::count && aligned(from)) {
    *reinterpret_cast<uint4*>(&pack) = *reinterpret_cast<const uint4*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < Pack<E>::count; ++i)
      if (i < left) pack.values[i] = from[i];
  }
  return pack;
}
template <class E>
__device__ void store(E* to, const Pack<E>& pack, std::int64_t left) {
  if (left >= Pack<E>::count && aligned(to)) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&pack);
  } else {
#pragma unroll
    for (int i = 0; i < Pack<E>::count; ++i)
      if (i < left) to[i] = pack.values[i];
  }
}

__device__ inline float warp_sum(float v) {
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) v += __shfl_xor_sync(all_lanes, v, step);
  return v;
}
__device__ inline float warp_max(float v) {
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(all_lanes, v, step));
  return v;
}

/// Of all threads of a block, to all of them; `sums` holds a value for each warp. Warps are added in order.
template <int threads>
__device__ float block_sum(float v, float* sums) {
  v = warp_sum(v);
  if (threadIdx.x % warp == 0) sums[threadIdx.x / warp] = v;
#if !defined(FLOTILLA_PLANT_MISSING_BARRIER)
  __syncthreads();
#endif
  float total = 0;
#pragma unroll
  for (int i = 0; i < threads / warp; ++i) total += sums[i];
  __syncthreads();
  return total;
}
template <int threads>
__device__ float block_max(float v, float* most) {
  v = warp_max(v);
  if (threadIdx.x % warp == 0) most[threadIdx.x / warp] = v;
  __syncthreads();
  float all = most[0];
#pragma unroll
  for (int i = 1; i < threads / warp; ++i) all = fmaxf(all, most[i]);
  __syncthreads();
  return all;
}

/// cap * tanh(x / cap), or x without a cap; and its derivative from its value.
__device__ inline float capped(float x, float cap) { return cap > 0.0f ? cap * tanhf(x / cap) : x; }
__device__ inline float capped_slope(float y, float cap) { return cap > 0.0f ? 1.0f - y / cap * (y / cap) : 1.0f; }

/// What an element is multiplied with: 0 or scale. The numbering of cpu/kernels.hpp.
__device__ inline float multiplier(const KernelDropout& d, int column, int row, int sequence, int head) {
  Philox random;
  random.key0 = d.key0;
  random.key1 = d.key1;
  const auto counter = static_cast<std::uint32_t>(column / 64 * 16 + column % 16);
  const auto words = random(counter | static_cast<std::uint64_t>(static_cast<std::uint32_t>(row)) << 32,
                            static_cast<std::uint32_t>(sequence) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(head)) << 32);
  const int word = column / 16 % 4;
  const std::uint32_t bits = word == 0   ? words[0]
                             : word == 1 ? words[1]
                             : word == 2 ? words[2]
                                         : words[3];  // no address: it stays in registers
  return bits < d.threshold ? 0.0f : d.scale;
}
__device__ inline float row_multiplier(const KernelDropout& d, int column, int row, const KernelRowPlace& place) {
  const int at = row + place.first_row;
  return multiplier(d, column, at % place.length, place.first_sequence + at / place.length, 0);
}

/// Of a token of the microbatch: in its sequence, or, where `starts` say by token where documents begin, in its document.
__device__ inline std::int64_t position_of(const std::int32_t* starts, std::int64_t token, int length) {
  return token % length - (starts != nullptr ? starts[token] : 0);
}

/// 16 bytes from global to shared memory, there when wait_for_copies has returned (and, for other threads, after a barrier).
#if defined(__CUDACC__)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline void copy_async(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(at), "l"(from) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_group 0;\n" ::: "memory"); }
#else
__device__ inline void copy_async(void* to, const void* from) { *static_cast<uint4*>(to) = *static_cast<const uint4*>(from); }
__device__ inline void commit_copies() {}
__device__ inline void wait_for_copies() {}
#endif
#else
inline void copy_async(void* to, const void* from) { hostgpu::copy_async(to, from, 16); }
inline void commit_copies() { hostgpu::commit_copies(); }
inline void wait_for_copies() { hostgpu::wait_for_copies(0); }
#endif

}  // namespace flotilla::compute::cuda

/// A file of kernels is included once for each element type.
#define FLOTILLA_PASTE_(a, b) a##b
#define FLOTILLA_PASTE(a, b) FLOTILLA_PASTE_(a, b)
#define FLOTILLA_KERNEL(name) extern "C" __global__ void FLOTILLA_PASTE(name, FLOTILLA_SUFFIX)
/// One of which so many blocks are to share a multiprocessor. Said before sm_80 only: there ptxas takes some registers more than fit, on
/// later ones it keeps within them by itself, and spills if it is told to.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define FLOTILLA_SHARING_KERNEL(name, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) FLOTILLA_PASTE(name, FLOTILLA_SUFFIX)
#else
#define FLOTILLA_SHARING_KERNEL(name, threads, blocks) FLOTILLA_KERNEL(name)
#endif
