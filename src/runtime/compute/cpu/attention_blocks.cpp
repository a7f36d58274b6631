#include "attention_blocks.hpp"

#include <algorithm>

namespace flotilla::compute::cpu {
namespace {

model::LayerShape shape_of(const Setup& s) { return {1, s.length, s.tensor_parallel, s.tensor_index, s.precision}; }

/// Dropout deals its numbers by 64 keys.
constexpr std::int64_t key_step = 64;

std::int64_t first_key_of(std::int64_t first_query, int window) {
  return window == 0 ? 0 : std::max<std::int64_t>(0, first_query + 1 - window) / key_step * key_step;
}

AttentionSpecs specs_of_block(const Setup& setup, std::int64_t first_query, std::int64_t rows, int window) {
  const Precision p = setup.precision;
  const bool fp32 = p == Precision::fp32;
  const HeadPlaces layout{setup};
  const std::int64_t size = layout.size, row = layout.row, output_row = layout.heads * size;
  const std::int64_t first_key = first_key_of(first_query, window), keys = first_query + rows - first_key;
  const std::int64_t pitch = model::attention_pitch(setup.length);
  const std::int64_t probability_pitch = fp32 ? pitch : 2 * pitch;  // narrow rows begin where fp32 ones do
  AttentionSpecs s{first_query, rows, first_key, {}, {}, {}, {}, {}, {}};
  s.scores = {.m = rows,
              .n = keys,
              .k = size,
              .a_row = row,
              .a_column = 1,
              .b_row = 1,
              .b_column = row,
              .c_row = pitch,
              .precision = p,
              .c_fp32 = true,
              .per_thread = true};
  s.values = {.m = rows,
              .n = size,
              .k = keys,
              .a_row = probability_pitch,
              .a_column = 1,
              .b_row = row,
              .b_column = 1,
              .c_row = output_row,
              .precision = p,
              .per_thread = true};
  s.probability_gradient = s.scores;
  s.probability_gradient.a_row = output_row;
  s.query_gradient = s.values;
  s.query_gradient.c_row = row;
  s.key_gradient = {.m = keys,
                    .n = size,
                    .k = rows,
                    .a_row = 1,
                    .a_column = probability_pitch,
                    .b_row = row,
                    .b_column = 1,
                    .c_row = fp32 ? row : size,
                    .precision = p,
                    .c_fp32 = true,
                    .accumulate = true,
                    .per_thread = true};
  s.value_gradient = s.key_gradient;
  s.value_gradient.b_row = output_row;
  return s;
}

}  // namespace

HeadPlaces::HeadPlaces(const Setup& setup)
    : shared{setup.model.shares_keys()},
      groups{model::local_groups(setup.model, shape_of(setup))},
      queries{setup.model.queries_per_group()},
      heads{groups * queries},
      size{setup.model.head_size()},
      row{model::qkv_width(setup.model, shape_of(setup))} {}

int attention_window(const Setup& setup, int block) {
  const int window = setup.model.window(block);
  return window < setup.length ? window : 0;
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
    blocks.push_back(specs_of_block(setup, first, std::min<std::int64_t>(model::attention_block, setup.length - first), window));
  std::ranges::reverse(blocks);
  return blocks;
}

std::int64_t attention_scratch(const Setup& setup) {
  std::int64_t most = 0;
  for (const int window : attention_windows(setup))
    for (const AttentionSpecs& b : attention_specs(setup, window))
      for (const ProductSpec* s : {&b.scores, &b.values, &b.probability_gradient, &b.query_gradient, &b.key_gradient, &b.value_gradient})
        most = std::max(most, scratch_bytes(*s, setup.threads));
  return setup.threads * align_up({most}, 64).count;
}

}  // namespace flotilla::compute::cpu
