#pragma once
#include <vector>

#include "flotilla/compute/backend.hpp"
#include "products.hpp"

namespace flotilla::compute::cpu {

/// Where keys and values of a sequence's tokens stand, in elements.
struct KeyPlaces {
  std::int64_t row = 0;  ///< from token to token
  std::int64_t first = 0, step = 0, to_value = 0;

  std::int64_t key(std::int64_t group) const { return first + group * step; }
  std::int64_t value(std::int64_t group) const { return key(group) + to_value; }
};

/// Where the heads of this rank stand in a row of qkv, in elements.
struct HeadPlaces {
  explicit HeadPlaces(const Setup&);

  std::int64_t query(std::int64_t head) const {
    return grouped ? group_of(head) * (queries + 2) * size + head % queries * size : head * size;
  }
  std::int64_t key(std::int64_t group) const { return beside_queries().key(group); }
  std::int64_t value(std::int64_t group) const { return beside_queries().value(group); }
  KeyPlaces beside_queries() const {
    return {row, (grouped ? queries : heads) * size, (grouped ? queries + 2 : 1) * size, (grouped ? 1 : heads) * size};
  }
  KeyPlaces in_cache() const { return {2 * groups * size, 0, size, groups * size}; }
  std::int64_t group_of(std::int64_t head) const { return head / queries; }

  bool grouped;
  std::int64_t groups, queries, heads, size, row;  ///< queries: of a group; row: elements of a row of qkv
};

/// The products of one block of queries against the keys that any of them sees.
struct AttentionSpecs {
  std::int64_t first_query = 0, rows = 0, first_key = 0, keys = 0;
  ProductSpec scores, values;                                                      // forward
  ProductSpec probability_gradient, query_gradient, key_gradient, value_gradient;  // backward
};

/// From row to row of scores, in elements of fp32.
std::int64_t score_pitch(const Setup&);

/// Windows of the model that differ at this length; 0 sees all before.
std::vector<int> attention_windows(const Setup&);
/// That of a block of the model, as in attention_windows.
int attention_window(const Setup&, int block);

/// Last block first: the longest. Where a window ends before a block's first key, the keys before it are left out (but for up to 63: see
/// AttentionBlock::first_key). Key and value gradients are added to what is there.
std::vector<AttentionSpecs> attention_specs(const Setup&, int window);
/// What is left of a block in front of whose documents there are `attention_block` keys, twice as many, and so on, where Setup::documents
/// is set; else nothing.
std::vector<AttentionSpecs> narrower_specs(const Setup&, const AttentionSpecs&);
/// Those of Setup::length queries behind `cached` tokens in a cache, forward only. Their keys are rounded up to a multiple of 64, so that
/// few products are made while a text grows; those behind the last query are not seen.
AttentionSpecs cached_attention_specs(const Setup&, std::int64_t cached, int window);
/// Scratchpad of the library for all threads at once.
std::int64_t attention_scratch(const Setup&);

}  // namespace flotilla::compute::cpu
