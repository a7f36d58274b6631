#pragma once
#include "flotilla/gpu/device.hpp"
#include "kernel_set.hpp"

namespace flotilla::compute::cuda {

/// The attention kernels for a size of heads on a device.
template <class E>
struct AttentionKernels {
  const Launcher<E*, float*, const E*, const E*, const std::int32_t*, AttentionShape, KernelDropout>* forward;
  const Launcher<E*, float*, const E*, const E*, const E*, const float*, const std::int32_t*, AttentionShape, KernelDropout>* queries;
  const Launcher<E*, const float*, const E*, const E*, const float*, const std::int32_t*, AttentionShape, KernelDropout>* keys;
  int rows;  ///< of a block
  Bytes forward_shared, backward_shared;

  gpu::LaunchShape launch(int length, std::int64_t heads, int sequences, bool is_forward) const {
    return {.blocks_x = (length + rows - 1) / rows,
            .blocks_y = heads,
            .blocks_z = sequences,
            .threads = attention_threads,
            .shared = is_forward ? forward_shared : backward_shared};
  }
};

/// Whether a device's tensor cores take heads of this size: bf16 from sm_80 on, fp16 from sm_75 on, multiples of 16 up to middle_head.
template <class E>
bool has_tensor_cores(const gpu::DeviceFacts& device, int head_size) {
  const int least = std::is_same_v<E, float16> ? 75 : 80;
  return !std::is_same_v<E, float> && head_size % attention_mma_step == 0 && head_size <= middle_head &&
         10 * device.major + device.minor >= least;
}

/// The kernels stay where they are. `capped`: scores are; kernels for tensor cores have no registers left for it.
template <class E>
AttentionKernels<E> choose_attention(const KernelSet<E>& k, const gpu::DeviceFacts& device, int head_size, bool capped) {
  const bool small = head_size <= small_head;
  if constexpr (!std::is_same_v<E, float>)
    if (!capped && has_tensor_cores<E>(device, head_size))
      return {small ? &k.attention_mma_forward_64 : &k.attention_mma_forward_128,
              small ? &k.attention_mma_queries_64 : &k.attention_mma_queries_128,
              small ? &k.attention_mma_keys_64 : &k.attention_mma_keys_128,
              attention_mma_rows,
              Bytes{attention_mma_shared(head_size, true)},
              Bytes{attention_mma_shared(head_size, false)}};
  const auto of_size = [&](const auto& of_small, const auto& of_middle, const auto& of_large) {
    return small ? &of_small : head_size <= middle_head ? &of_middle : &of_large;
  };
  return {of_size(k.attention_forward_64, k.attention_forward_128, k.attention_forward_256),
          of_size(k.attention_queries_64, k.attention_queries_128, k.attention_queries_256),
          of_size(k.attention_keys_64, k.attention_keys_128, k.attention_keys_256),
          attention_tile,
          Bytes{attention_shared(head_size, sizeof(E), true)},
          Bytes{attention_shared(head_size, sizeof(E), false)}};
}

}  // namespace flotilla::compute::cuda
