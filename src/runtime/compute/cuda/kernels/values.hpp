#pragma once
#include <cstdint>

/// What kernels and their host share: element types and small parameters. Pointers are parameters of their own, never members of these.
namespace flotilla::compute::cuda {

/// Storage only: kernels widen it to fp32 and round to nearest even.
struct bfloat16 {
  std::uint16_t bits;
};
/// Likewise.
struct float16 {
  std::uint16_t bits;
};

/// One dropout site in one step: multipliers are those of the CPU (cpu/kernels.hpp), so plans and devices change none.
struct KernelDropout {
  std::uint32_t key0 = 0, key1 = 0;
  std::uint32_t threshold = 0;  ///< probability * 2^32
  float scale = 1;              ///< 1 / (1 - probability)
  int on = 0;
};

/// Which (sequence, position) a row of a matrix of tokens is; `first_row`: of the microbatch's tokens, the one that row 0 is.
struct KernelRowPlace {
  int length = 1, first_sequence = 0, first_row = 0;
};

enum class PointwiseActivation : int { gelu_tanh, relu, gelu, silu };

/// Heads in a row of qkv, in elements: of query head h at (h / queries) * query_group + (h % queries) * size, of key group g at
/// first_key + g * key_step, of its value at value_offset beyond.
struct KernelHeadPlaces {
  int size = 0, heads = 0, groups = 0, queries = 1;  ///< queries: of a group
  int row = 0;                                       ///< elements of a row
  int query_group = 0, first_key = 0, key_step = 0, value_offset = 0;
};

/// Heads in a row that have norms: of `bands` bands, `band` elements apart, `queries` heads and then `keys` heads of `size` columns.
struct HeadBands {
  int pitch = 0, band = 0, bands = 1, queries = 0, keys = 0, size = 0;
  float offset = 0;  ///< added to the weights
};

struct AttentionShape {
  KernelHeadPlaces places;
  int length = 1, window = 0;  ///< window: keys that a query sees, itself the last; 0: all before it
  float scale = 1;
  int slopes = 0;                          ///< heads of the whole model where each has a slope (ALiBi); 0: none has
  int first_sequence = 0, first_head = 0;  ///< global, for dropout and slopes
  int cached = 0;                          ///< keys before those of the first query; forward only
  int key_row = 0, key_rows = 0;           ///< elements of a row of keys, and rows of a sequence; forward only
  float cap = 0;                           ///< scores become cap * tanh(score / cap); 0: they stay. Not on tensor cores
};

/// The vocabulary's columns on this rank, and where rows of stats are.
struct KernelHeadRows {
  int width = 0, first_token = 0, length = 1, rows = 0, members = 1;
  std::int64_t pitch = 0;
  float cap = 0;  ///< logits become cap * tanh(logit / cap); 0: they stay
};

struct AdamWStep {
  float step_size, beta1, beta2, epsilon, decay, gradient_factor, second_correction;  ///< decay: learning rate x weight decay, or 0
};

inline constexpr int row_threads = 128, element_threads = 256, column_threads = 128, attention_threads = 128, attention_tile = 32;
/// Blocks whose column sums are added in order afterwards, and columns' parts: fixed, so that bits do not depend on the device.
inline constexpr int most_row_blocks = 256, most_column_parts = 32;
inline constexpr int norm_values_per_block = 8192, most_norm_blocks = 256, norm_threads = 256, loss_threads = 256;

/// Dynamic shared memory of the attention kernels: four tiles (forward: three) of `element` bytes, and two (one) of scores.
constexpr int attention_shared(int size, int element, bool forward) {
  const int tile = attention_tile * (size * element + 16), scores = attention_tile * (attention_tile + 1) * 4;
  return forward ? 3 * tile + scores : 4 * tile + 2 * scores;
}
/// By tensor cores: rows of a block, and those of a tile on the other side in the backward pass (forward: as many as rows).
inline constexpr int attention_mma_rows = 64, attention_mma_columns = 32;
/// Heads are multiples of this.
inline constexpr int attention_mma_step = 16;
constexpr int attention_mma_shared(int size, bool forward) {
  const int pitch = 2 * size + 16;
  return forward ? 3 * attention_mma_rows * pitch : 2 * (attention_mma_rows + attention_mma_columns) * pitch + 12 * attention_mma_columns;
}
/// Kernels are made for heads of up to these sizes; those for tensor cores for the first two.
inline constexpr int small_head = 64, middle_head = 128, largest_head = 256;

}  // namespace flotilla::compute::cuda
