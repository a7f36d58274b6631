#include "attention_blocks.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace flotilla::compute::cpu {
namespace {

model::LayerShape shape_of(const Setup& s) { return {1, s.length, s.tensor_parallel, s.tensor_index, s.precision}; }

/// Dropout deals its numbers by 64 keys.
constexpr std::int64_t key_step = 64;

std::int64_t first_key_of(std::int64_t first_query, int window) {
  return window == 0 ? 0 : std::max<std::int64_t>(0, first_query + 1 - window) / key_step * key_step;
}

/// Narrow rows begin where fp32 ones do.
std::int64_t probability_pitch(const Setup& setup) {
  return setup.precision == Precision::fp32 ? score_pitch(setup) : 2 * score_pitch(setup);
}

/// `s` has its rows and keys.
void add_forward_products(const Setup& setup, const KeyPlaces& places, AttentionSpecs& s) {
  const Precision p = setup.precision;
  const HeadPlaces layout{setup};
  s.scores = {.m = s.rows,
              .n = s.keys,
              .k = layout.size,
              .a_row = layout.row,
              .a_column = 1,
              .b_row = 1,
              .b_column = places.row,
              .c_row = score_pitch(setup),
              .precision = p,
              .c_fp32 = true,
              .per_thread = true};
  s.values = {.m = s.rows,
              .n = layout.size,
              .k = s.keys,
              .a_row = probability_pitch(setup),
              .a_column = 1,
              .b_row = places.row,
              .b_column = 1,
              .c_row = layout.heads * layout.size,
              .precision = p,
              .per_thread = true};
}

void add_backward_products(const Setup& setup, AttentionSpecs& s) {
  const bool fp32 = setup.precision == Precision::fp32;
  const HeadPlaces layout{setup};
  const std::int64_t output_row = layout.heads * layout.size;
  s.probability_gradient = s.scores;
  s.probability_gradient.a_row = output_row;
  s.query_gradient = s.values;
  s.query_gradient.c_row = layout.row;
  s.key_gradient = {.m = s.keys,
                    .n = layout.size,
                    .k = s.rows,
                    .a_row = 1,
                    .a_column = probability_pitch(setup),
                    .b_row = layout.row,
                    .b_column = 1,
                    .c_row = fp32 ? layout.row : layout.size,
                    .precision = setup.precision,
                    .c_fp32 = true,
                    .accumulate = true,
                    .per_thread = true};
  s.value_gradient = s.key_gradient;
  s.value_gradient.b_row = output_row;
}

AttentionSpecs specs_of_block(const Setup& setup, std::int64_t first_query, std::int64_t rows, std::int64_t first_key) {
  AttentionSpecs s{first_query, rows, first_key, first_query + rows - first_key, {}, {}, {}, {}, {}, {}};
  add_forward_products(setup, HeadPlaces{setup}.beside_queries(), s);
  add_backward_products(setup, s);
  return s;
}

/// One for every number of keys: products differ in nothing else.
std::vector<AttentionSpecs> all_cached_specs(const Setup& setup, int window) {
  std::map<std::int64_t, AttentionSpecs> by_keys;
  for (std::int64_t cached = 0; cached + setup.length <= setup.cache; ++cached) {
    const AttentionSpecs specs = cached_attention_specs(setup, cached, window);
    by_keys.emplace(specs.keys, specs);
  }
  std::vector<AttentionSpecs> all;
  for (const auto& [keys, specs] : by_keys) all.push_back(specs);
  return all;
}

std::int64_t most_scratch(const AttentionSpecs& b, int threads) {
  std::int64_t most = 0;
  for (const ProductSpec* s : {&b.scores, &b.values, &b.probability_gradient, &b.query_gradient, &b.key_gradient, &b.value_gradient})
    if (s->m > 0) most = std::max(most, scratch_bytes(*s, threads));
  return most;
}

}  // namespace

HeadPlaces::HeadPlaces(const Setup& setup)
    : grouped{setup.model.grouped_qkv()},
      groups{model::local_groups(setup.model, shape_of(setup))},
      queries{setup.model.queries_per_group()},
      heads{groups * queries},
      size{setup.model.head_size()},
      row{model::qkv_width(setup.model, shape_of(setup))} {}

std::int64_t score_pitch(const Setup& setup) { return model::attention_pitch(setup.cache > 0 ? setup.cache : setup.length); }

int attention_window(const Setup& setup, int block) {
  const int window = setup.model.window(block);
  return window < std::max(setup.length, setup.cache) ? window : 0;
}

std::vector<int> attention_windows(const Setup& setup) {
  std::vector<int> windows;
  for (int block = 0; block < setup.model.blocks; ++block)
    if (const int window = attention_window(setup, block); std::ranges::find(windows, window) == windows.end()) windows.push_back(window);
  return windows;
}

std::vector<AttentionSpecs> attention_specs(const Setup& setup, int window) {
  std::vector<AttentionSpecs> blocks;
  for (std::int64_t first = 0; first < setup.length; first += model::attention_block)
    blocks.push_back(
        specs_of_block(setup, first, std::min<std::int64_t>(model::attention_block, setup.length - first), first_key_of(first, window)));
  std::ranges::reverse(blocks);
  return blocks;
}

std::vector<AttentionSpecs> narrower_specs(const Setup& setup, const AttentionSpecs& whole) {
  std::vector<AttentionSpecs> narrower;
  if (!setup.documents) return narrower;
  for (std::int64_t key = whole.first_key + model::attention_block; key <= whole.first_query; key += model::attention_block)
    narrower.push_back(specs_of_block(setup, whole.first_query, whole.rows, key));
  return narrower;
}

AttentionSpecs cached_attention_specs(const Setup& setup, std::int64_t cached, int window) {
  const std::int64_t first_key = first_key_of(cached, window), last = cached + setup.length;
  const std::int64_t end = std::min<std::int64_t>(setup.cache, (last + key_step - 1) / key_step * key_step);
  AttentionSpecs s{cached, setup.length, first_key, end - first_key, {}, {}, {}, {}, {}, {}};
  add_forward_products(setup, HeadPlaces{setup}.in_cache(), s);
  return s;
}

std::int64_t attention_scratch(const Setup& setup) {
  std::int64_t most = 0;
  std::set<std::pair<std::int64_t, std::int64_t>> asked;  // the library takes a while to answer, and blocks differ in nothing else
  const auto ask = [&](const AttentionSpecs& b) {
    if (asked.emplace(b.rows, b.keys).second) most = std::max(most, most_scratch(b, setup.threads));
  };
  for (const int window : attention_windows(setup))
    for (const AttentionSpecs& b : setup.cache > 0 ? all_cached_specs(setup, window) : attention_specs(setup, window)) {
      ask(b);
      if (setup.cache > 0) continue;
      for (const AttentionSpecs& narrower : narrower_specs(setup, b)) ask(narrower);
    }
  return setup.threads * align_up({most}, 64).count;
}

}  // namespace flotilla::compute::cpu
