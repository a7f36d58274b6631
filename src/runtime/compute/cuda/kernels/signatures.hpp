#pragma once
#include "values.hpp"

/// Every kernel: F(name, suffix, element type E, parameter types...). Kernels are C functions `name` + suffix: the same name for nvcc, for
/// g++ and in the cubin. Definitions that differ from these declarations do not compile.
#define FLOTILLA_ELEMENT_KERNELS(F, S, E)                                                                                             \
  F(rows_forward, S, E, E*, E*, float*, const E*, const E*, const E*, int, const E*, const E*, int, float, int, float, KernelDropout, \
    KernelRowPlace, const std::int32_t*)                                                                                              \
  F(rows_backward, S, E, E*, E*, float*, const E*, const E*, const E*, const E*, const E*, const float*, int, int, int, float, int,   \
    KernelDropout, KernelRowPlace)                                                                                                    \
  F(head_norms, S, E, E*, E*, const E*, const E*, HeadBands, float)                                                                   \
  F(head_norms_backward, S, E, E*, float*, const E*, const E*, const E*, int, HeadBands, float)                                       \
  F(column_sums, S, E, float*, const E*, int, int)                                                                                    \
  F(activation_forward, S, E, E*, const E*, std::int64_t, PointwiseActivation)                                                        \
  F(activation_backward, S, E, E*, const E*, const E*, std::int64_t, PointwiseActivation)                                             \
  F(gated_forward, S, E, E*, const E*, std::int64_t, int, PointwiseActivation)                                                        \
  F(gated_backward, S, E, E*, const E*, const E*, std::int64_t, int, PointwiseActivation)                                             \
  F(rotate, S, E, E*, const float*, const std::int32_t*, std::int64_t, int, int, int, int, int, int)                                  \
  F(add, S, E, E*, const E*, const E*, std::int64_t)                                                                                  \
  F(gather_tokens, S, E, E*, const E*, const std::int32_t*, int, int, int, int, float)                                                \
  F(scatter_tokens, S, E, float*, const E*, const std::int32_t*, int, int, int, int, int, float)                                      \
  F(scatter_positions, S, E, float*, const E*, const std::int32_t*, int, int, int, int, int)                                          \
  F(head_stats, S, E, float*, E*, const std::int32_t*, KernelHeadRows)                                                                \
  F(head_gradient, S, E, E*, const float*, const std::int32_t*, KernelHeadRows, float)                                                \
  F(adamw, S, E, float*, E*, const float*, float*, float*, std::int64_t, AdamWStep)                                                   \
  F(convert, S, E, E*, const float*, std::int64_t)                                                                                    \
  F(ordered_sum, S, E, E*, const E*, int, int, std::int64_t)                                                                          \
  F(attention_forward_64, S, E, E*, float*, const E*, const E*, const std::int32_t*, AttentionShape, KernelDropout)                   \
  F(attention_forward_128, S, E, E*, float*, const E*, const E*, const std::int32_t*, AttentionShape, KernelDropout)                  \
  F(attention_forward_256, S, E, E*, float*, const E*, const E*, const std::int32_t*, AttentionShape, KernelDropout)                  \
  F(attention_queries_64, S, E, E*, float*, const E*, const E*, const E*, const float*, const std::int32_t*, AttentionShape,          \
    KernelDropout)                                                                                                                    \
  F(attention_queries_128, S, E, E*, float*, const E*, const E*, const E*, const float*, const std::int32_t*, AttentionShape,         \
    KernelDropout)                                                                                                                    \
  F(attention_queries_256, S, E, E*, float*, const E*, const E*, const E*, const float*, const std::int32_t*, AttentionShape,         \
    KernelDropout)                                                                                                                    \
  F(attention_keys_64, S, E, E*, const float*, const E*, const E*, const float*, const std::int32_t*, AttentionShape, KernelDropout)  \
  F(attention_keys_128, S, E, E*, const float*, const E*, const E*, const float*, const std::int32_t*, AttentionShape, KernelDropout) \
  F(attention_keys_256, S, E, E*, const float*, const E*, const E*, const float*, const std::int32_t*, AttentionShape, KernelDropout)

/// Likewise those for elements of 16 bits.
#define FLOTILLA_HALF_KERNELS(F, S, E)                                                                                                   \
  F(attention_mma_forward_64, S, E, E*, float*, const E*, const E*, const std::int32_t*, AttentionShape, KernelDropout)                  \
  F(attention_mma_forward_128, S, E, E*, float*, const E*, const E*, const std::int32_t*, AttentionShape, KernelDropout)                 \
  F(attention_mma_queries_64, S, E, E*, float*, const E*, const E*, const E*, const float*, const std::int32_t*, AttentionShape,         \
    KernelDropout)                                                                                                                       \
  F(attention_mma_queries_128, S, E, E*, float*, const E*, const E*, const E*, const float*, const std::int32_t*, AttentionShape,        \
    KernelDropout)                                                                                                                       \
  F(attention_mma_keys_64, S, E, E*, const float*, const E*, const E*, const float*, const std::int32_t*, AttentionShape, KernelDropout) \
  F(attention_mma_keys_128, S, E, E*, const float*, const E*, const E*, const float*, const std::int32_t*, AttentionShape, KernelDropout)

/// Every element type, with its suffix and all its kernels: T(suffix, type, kernels).
#define FLOTILLA_NO_KERNELS(F, S, E)
#define FLOTILLA_ELEMENT_TYPES(T) \
  T(_f32, float, FLOTILLA_NO_KERNELS) T(_bf16, bfloat16, FLOTILLA_HALF_KERNELS) T(_f16, float16, FLOTILLA_HALF_KERNELS)

#define FLOTILLA_PLAIN_KERNELS(F)                                          \
  F(add_column_sums, float*, float*, float*, const float*, int, int)       \
  F(squared_norm, double*, double*, unsigned*, const float*, std::int64_t) \
  F(head_loss, double*, double*, const float*, KernelHeadRows, int, int)
