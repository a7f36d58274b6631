#pragma once
// Products of a warp by tensor cores: 16 x 16 by 16 x 8 into fp32. Which lane has what is mma.sync's m16n8k16 (PTX ISA, 9.7.14): lane 4 g +
// t has of the left matrix rows g and g + 8 in columns 2 t, 2 t + 1 and those 8 further on; of the right one the same of its transpose; of
// the result rows g and g + 8 in columns 2 t and 2 t + 1. sm_75 makes it of two halves (m16n8k8), in fp16 only.
#include "kernel_base.hpp"

namespace flotilla::compute::cuda {

/// 16 x 16 of the left matrix.
struct LeftFragment {
  std::uint32_t words[4];
};
/// 16 x 8 of the right matrix, twice: columns 0 to 7, and 8 to 15.
struct RightFragments {
  std::uint32_t words[4];
};
/// 16 x 8 of the result.
struct Sums {
  float values[4];
};

/// Two elements as one word, the first in the lower half.
template <class E>
__device__ std::uint32_t pack_pair(float first, float second) {
  return narrowed<E>(first).bits | static_cast<std::uint32_t>(narrowed<E>(second).bits) << 16;
}

/// A result as the left matrix of the next product: two blocks of 8 columns side by side.
template <class E>
__device__ LeftFragment as_left(const Sums& left, const Sums& right) {
  return {{pack_pair<E>(left.values[0], left.values[1]), pack_pair<E>(left.values[2], left.values[3]),
           pack_pair<E>(right.values[0], right.values[1]), pack_pair<E>(right.values[2], right.values[3])}};
}

#if defined(__CUDACC__)

/// Four matrices of 8 x 8; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(std::uint32_t (&words)[4], const void* row, bool transposed) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
#if __CUDA_ARCH__ >= 750
  if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at)
                 : "memory");
#else
  __trap();  // not launched there
#endif
}

__device__ inline void multiply_add(bfloat16, Sums& c, const LeftFragment& a, std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.values[0]), "+f"(c.values[1]), "+f"(c.values[2]), "+f"(c.values[3])
      : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b0), "r"(b1));
#else
  __trap();  // not launched there
#endif
}
__device__ inline void multiply_add(float16, Sums& c, const LeftFragment& a, std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.values[0]), "+f"(c.values[1]), "+f"(c.values[2]), "+f"(c.values[3])
      : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b0), "r"(b1));
#elif __CUDA_ARCH__ >= 750
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c.values[0]), "+f"(c.values[1]), "+f"(c.values[2]), "+f"(c.values[3])
      : "r"(a.words[0]), "r"(a.words[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c.values[0]), "+f"(c.values[1]), "+f"(c.values[2]), "+f"(c.values[3])
      : "r"(a.words[2]), "r"(a.words[3]), "r"(b1));
#else
  __trap();  // not launched there
#endif
}

/// 2^x with a relative error of 2^-22.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else

inline void load_matrices(std::uint32_t (&words)[4], const void* row, bool transposed) { hostgpu::load_matrices(words, row, transposed); }
template <class E>
void multiply_add(E, Sums& c, const LeftFragment& a, std::uint32_t b0, std::uint32_t b1) {
  hostgpu::multiply_add(c.values, a.words, b0, b1, [](std::uint16_t bits) { return widen(E{bits}); });
}
inline float exp2_fast(float x) { return std::exp2(x); }

#endif

/// From a tile with rows of the left matrix.
template <class E>
__device__ LeftFragment load_left(const E* tile, int pitch) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  LeftFragment f;
  load_matrices(f.words, tile + lane % 16 * pitch + lane / 16 * 8, false);
  return f;
}
/// From a tile whose rows are the columns of the right matrix.
template <class E>
__device__ RightFragments load_right(const E* tile, int pitch) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  RightFragments f;
  load_matrices(f.words, tile + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8, false);
  return f;
}
/// From a tile with rows of the right matrix.
template <class E>
__device__ RightFragments load_right_rows(const E* tile, int pitch) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  RightFragments f;
  load_matrices(f.words, tile + lane % 16 * pitch + lane / 16 * 8, true);
  return f;
}

/// 16 x 16 by 16 x 16.
template <class E>
__device__ void multiply_add(Sums& left, Sums& right, const LeftFragment& a, const RightFragments& b) {
  multiply_add(E{}, left, a, b.words[0], b.words[1]);
  multiply_add(E{}, right, a, b.words[2], b.words[3]);
}

}  // namespace flotilla::compute::cuda
