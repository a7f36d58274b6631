#pragma once
#include <cstddef>
#include <cstdint>

/// What is used of cuBLASLt (libcublasLt.so), as documented and in our own declarations.
namespace flotilla::compute::cuda::blas {

using Status = int;
using Handle = struct HandleObject*;
using Description = struct DescriptionObject*;
using Layout = struct LayoutObject*;
using Preference = struct PreferenceObject*;
struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

inline constexpr Status success = 0, not_initialized = 1, invalid_value = 7, not_supported = 15;
inline constexpr int compute_fp32 = 68, compute_tf32 = 77;                      // CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32
inline constexpr int type_fp32 = 0, type_fp16 = 2, type_bf16 = 14;              // CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF
inline constexpr int transpose_a = 3, transpose_b = 4, epilogue = 7, bias = 8;  // CUBLASLT_MATMUL_DESC_*
inline constexpr int no_transpose = 0, transpose = 1;                           // CUBLAS_OP_*
inline constexpr int epilogue_relu = 2, epilogue_bias = 4;                      // CUBLASLT_EPILOGUE_*; they add up
inline constexpr int most_workspace = 1, reduction_schemes = 3;                 // CUBLASLT_MATMUL_PREF_*
inline constexpr int alignment_a = 5, alignment_b = 6, alignment_c = 7, alignment_d = 8;  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_*_BYTES
/// CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | OUTPUT_TYPE: partial sums through the workspace, in order. Not in place, which is atomic.
inline constexpr std::uint32_t ordered_reductions = 2 | 4;

#define FLOTILLA_BLAS_FUNCTIONS(F)                                                                                                        \
  F(cublasLtCreate, Status, Handle*)                                                                                                      \
  F(cublasLtDestroy, Status, Handle)                                                                                                      \
  F(cublasLtGetVersion, std::size_t, void)                                                                                                \
  F(cublasLtMatmulDescCreate, Status, Description*, int, int)                                                                             \
  F(cublasLtMatmulDescDestroy, Status, Description)                                                                                       \
  F(cublasLtMatmulDescSetAttribute, Status, Description, int, const void*, std::size_t)                                                   \
  F(cublasLtMatrixLayoutCreate, Status, Layout*, int, std::uint64_t, std::uint64_t, std::int64_t)                                         \
  F(cublasLtMatrixLayoutDestroy, Status, Layout)                                                                                          \
  F(cublasLtMatmulPreferenceCreate, Status, Preference*)                                                                                  \
  F(cublasLtMatmulPreferenceDestroy, Status, Preference)                                                                                  \
  F(cublasLtMatmulPreferenceSetAttribute, Status, Preference, int, const void*, std::size_t)                                              \
  F(cublasLtMatmulAlgoGetHeuristic, Status, Handle, Description, Layout, Layout, Layout, Layout, Preference, int, Heuristic*, int*)       \
  F(cublasLtMatmul, Status, Handle, Description, const void*, const void*, Layout, const void*, Layout, const void*, const void*, Layout, \
    void*, Layout, const Algorithm*, void*, std::size_t, void*)

struct CublasFunctions {
#define FLOTILLA_BLAS_MEMBER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  FLOTILLA_BLAS_FUNCTIONS(FLOTILLA_BLAS_MEMBER)
#undef FLOTILLA_BLAS_MEMBER
};

}  // namespace flotilla::compute::cuda::blas
