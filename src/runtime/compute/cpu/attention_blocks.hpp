#pragma once
#include <vector>

#include "flotilla/compute/backend.hpp"
#include "products.hpp"

namespace flotilla::compute::cpu {

/// Where the heads of this rank stand in a row of qkv, in elements.
struct HeadLayout {
  explicit HeadLayout(const Setup&);

  std::int64_t query(std::int64_t head) const {
    return shared ? group_of(head) * (queries + 2) * size + head % queries * size : head * size;
  }
  std::int64_t key(std::int64_t group) const { return shared ? (group * (queries + 2) + queries) * size : (heads + group) * size; }
  std::int64_t value(std::int64_t group) const { return key(group) + (shared ? size : heads * size); }
  std::int64_t group_of(std::int64_t head) const { return head / queries; }

  bool shared;
  std::int64_t groups, queries, heads, size, row;  ///< queries: of a group; row: elements of a row of qkv
};

/// The products of one block of queries against the keys that any of them sees.
struct AttentionSpecs {
  std::int64_t first_query = 0, rows = 0, first_key = 0;
  ProductSpec scores, values;                                                      // forward
  ProductSpec probability_gradient, query_gradient, key_gradient, value_gradient;  // backward
};

/// Windows of the model that differ at this length; 0 sees all before.
std::vector<int> attention_windows(const Setup&);
/// That of a block of the model, as in attention_windows.
int attention_window(const Setup&, int block);

/// Last block first: the longest. Where a window ends before a block's first key, the keys before it are left out (but for up to 63: see
/// AttentionBlock::first_key). Key and value gradients are added to what is there.
std::vector<AttentionSpecs> attention_specs(const Setup&, int window);
/// Scratchpad of the library for all threads at once.
std::int64_t attention_scratch(const Setup&);

}  // namespace flotilla::compute::cpu
