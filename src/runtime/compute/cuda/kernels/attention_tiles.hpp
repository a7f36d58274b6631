#pragma once
// What the attention kernels share: tiles of rows in shared memory, the mask, and where heads are.
#include "kernel_base.hpp"

namespace flotilla::compute::cuda {

/// A tile of rows of `size` elements; rows are 16 bytes longer than they need be, which keeps them off each other's banks.
template <class E>
__device__ int tile_pitch(int size) {
  return size + Pack<E>::count;
}

/// Rows [first, first + rows) of a sequence from `from` (row 0), `row` elements apart. Beyond `last`, zeros. By 16 bytes where rows and
/// heads are multiples of them, element by element elsewhere.
template <int rows, class E>
__device__ void fetch_tile(E* tile, const E* from, int row, int size, int first, int last) {
  const bool whole = size % Pack<E>::count == 0 && row % Pack<E>::count == 0 && aligned(from);
  const int step = whole ? Pack<E>::count : 1, packs = size / step;
  for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += attention_threads) {
    const int r = i / packs, c = i % packs * step;
    E* to = tile + r * tile_pitch<E>(size) + c;
    const E* at = from + std::int64_t{first + r} * row + c;
    if (first + r >= last) {
      for (int k = 0; k < step; ++k) narrow(0.0f, to[k]);
    } else if (whole) {
      copy_async(to, at);
    } else {
      *to = *at;
    }
  }
  commit_copies();
}

__device__ inline void tiles_arrive() {
#if defined(FLOTILLA_PLANT_UNAWAITED_COPY)
  commit_copies();
#else
  wait_for_copies();
#endif
  __syncthreads();
}

/// Keys are numbered from the sequence's first token, queries from the first behind the `cached` ones: a constant 0 in backward passes,
/// which saves them registers. `first`: the query's first_key.
__device__ inline bool visible(const AttentionShape& s, int query, int key, int first, int cached = 0) {
  const int itself = cached + query;
#if defined(FLOTILLA_PLANT_WRONG_MASK)
  return query < s.length && key < itself && key >= first;
#else
  return query < s.length && key <= itself && key >= first;
#endif
}

/// The first key that any query from `query` on sees. `starts`: of the sequence's documents, by query, ascending; null: it is one.
__device__ inline int first_key(const AttentionShape& s, const std::int32_t* starts, int query, int cached = 0) {
  const int itself = cached + query, in_window = s.window == 0 || itself < s.window ? 0 : itself + 1 - s.window;
  return starts != nullptr && query < s.length ? max(in_window, starts[query]) : in_window;
}
/// A sequence's part of what is by token.
__device__ inline const std::int32_t* starts_of(const AttentionShape& s, const std::int32_t* starts, int sequence) {
  return starts == nullptr ? nullptr : starts + std::int64_t{sequence} * s.length;
}
/// Behind the last key that any of `count` queries from `query` on sees.
__device__ inline int end_of_keys(const AttentionShape& s, int query, int count) { return s.cached + min(query + count, s.length); }
/// The first query behind all that see a key before `key`, but for documents: see goes_on.
__device__ inline int end_of_queries(const AttentionShape& s, int key) {
  return s.window == 0 ? s.length : min(s.length, key + s.window - 1);
}

/// Whether the document of `query`, or an earlier one that a later query is of, may reach keys before `key`.
__device__ inline bool goes_on(const std::int32_t* starts, int query, int key) { return starts == nullptr || starts[query] < key; }

/// What a head's scores get for every position that a key is behind its query (model::head_slope); 0 where heads have no slopes.
__device__ inline float head_slope(const AttentionShape& s, int head) {
  if (s.slopes == 0) return 0.0f;
  int power = 1;
  while (2 * power <= s.slopes) power *= 2;
  const int h = s.first_head + head;
  return exp2f(h < power ? -8.0f * static_cast<float>(h + 1) / static_cast<float>(power)
                         : -4.0f * static_cast<float>(2 * (h - power) + 1) / static_cast<float>(power));
}
/// A score with its head's slope, of keys and queries numbered as in visible().
__device__ inline float sloped(float score, float slope, int query, int key, int cached = 0) {
  return score + slope * static_cast<float>(key - cached - query);
}

__device__ inline int query_column(const KernelHeadPlaces& p, int head) {
  return head / p.queries * p.query_group + head % p.queries * p.size;
}
__device__ inline int key_column(const KernelHeadPlaces& p, int group) { return p.first_key + group * p.key_step; }

}  // namespace flotilla::compute::cuda
