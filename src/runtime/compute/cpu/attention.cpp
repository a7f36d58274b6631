#include "attention.hpp"

#include <atomic>
#include <cmath>

#include "flotilla/base/error.hpp"

namespace flotilla::compute::cpu {
namespace {

AttentionSpecs specs_of_block(const Setup& setup, std::int64_t heads, std::int64_t first_query, std::int64_t rows, bool last) {
  const Precision p = setup.precision;
  const bool fp32 = p == Precision::fp32;
  const std::int64_t size = setup.model.head_size(), keys = first_query + rows, row = 3 * heads * size, output_row = heads * size;
  const std::int64_t pitch = model::attention_pitch(setup.length);
  const std::int64_t probability_pitch = fp32 ? pitch : 2 * pitch;  // bf16 rows begin where fp32 ones do
  AttentionSpecs s{first_query, rows, keys, {}, {}, {}, {}, {}, {}};
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
                    .accumulate = !last,
                    .per_thread = true};
  s.value_gradient = s.key_gradient;
  s.value_gradient.b_row = output_row;
  return s;
}

}  // namespace

std::vector<AttentionSpecs> attention_specs(const Setup& setup, int heads) {
  std::vector<AttentionSpecs> blocks;
  for (std::int64_t first = 0; first < setup.length; first += model::attention_block) {
    const std::int64_t rows = std::min<std::int64_t>(model::attention_block, setup.length - first);
    blocks.push_back(specs_of_block(setup, heads, first, rows, first + rows == setup.length));
  }
  std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

std::int64_t attention_scratch(const Setup& setup, int heads) {
  std::int64_t most = 0;
  for (const AttentionSpecs& b : attention_specs(setup, heads))
    for (const ProductSpec* s : {&b.scores, &b.values, &b.probability_gradient, &b.query_gradient, &b.key_gradient, &b.value_gradient})
      most = std::max(most, scratch_bytes(*s, setup.threads));
  return setup.threads * align_up({most}, 64).count;
}

template <class E>
Attention<E>::Attention(const Setup& setup, Products& products)
    : setup_{setup},
      products_{products},
      kernels_{kernels<E>()},
      head_size_{setup.model.head_size()},
      length_{setup.length},
      pitch_{model::attention_pitch(setup.length)} {
  const model::UnitRange mine = model::share(setup.model.heads, setup.tensor_parallel, setup.tensor_index);
  heads_ = mine.count();
  first_head_ = mine.first;
  specs_ = attention_specs(setup, static_cast<int>(heads_));
}

template <class E>
void Attention<E>::prepare(bool backward) {
  if (!blocks_.empty() && (backward_ready_ || !backward)) return;
  blocks_.resize(specs_.size());
  const auto make = [&](Product*& product, const ProductSpec& spec) {
    product = &products_.per_thread(spec);
    scratch_per_thread_ = std::max(scratch_per_thread_, align_up({product->scratch_bytes()}, 64).count);
  };
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    Block& b = blocks_[i];
    b.first_query = specs_[i].first_query;
    b.rows = specs_[i].rows;
    make(b.scores, specs_[i].scores);
    make(b.values, specs_[i].values);
    if (!backward) continue;
    make(b.probability_gradient, specs_[i].probability_gradient);
    make(b.query_gradient, specs_[i].query_gradient);
    make(b.key_gradient, specs_[i].key_gradient);
    make(b.value_gradient, specs_[i].value_gradient);
  }
  backward_ready_ = backward_ready_ || backward;
  products_.require_scratch(scratch_per_thread_ * setup_.threads);
}

template <class E>
AttentionBlock Attention<E>::describe(const Pass& pass, const Block& b, std::int64_t sequence, std::int64_t head, float* scores) const {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_size_));
  float* log_sum_exp = pass.log_sum_exp + (sequence * heads_ + head) * length_ + b.first_query;
  return {scores,
          pitch_,
          b.rows,
          b.first_query,
          scale,
          log_sum_exp,
          pass.dropout,
          static_cast<std::uint32_t>(pass.task.first_sequence + sequence),
          static_cast<std::uint32_t>(first_head_ + head)};
}

template <class E>
bool Attention<E>::run_forward(const Pass& pass, const Block& b, std::int64_t sequence, std::int64_t head, const Temporaries& t) const {
  const std::int64_t width = heads_ * head_size_;
  const E* q = pass.qkv + sequence * length_ * 3 * width + head * head_size_;
  const E *k = q + width, *v = k + width;
  E* output = pass.result + (sequence * length_ + b.first_query) * width + head * head_size_;
  bool good = b.scores->run({.a = q + b.first_query * 3 * width, .b = k, .c = t.scores}, t.scratch, t.thread);
  kernels_.softmax(describe(pass, b, sequence, head, t.scores));
  return b.values->run({.a = t.scores, .b = v, .c = output}, t.scratch, t.thread) && good;
}

template <class E>
bool Attention<E>::run_backward(const Pass& pass, const Block& b, std::int64_t sequence, std::int64_t head, const Temporaries& t) const {
  const std::int64_t width = heads_ * head_size_;
  const std::int64_t at = sequence * length_ * 3 * width + head * head_size_, block_at = at + b.first_query * 3 * width;
  const std::int64_t output_at = (sequence * length_ + b.first_query) * width + head * head_size_;
  const E *k = pass.qkv + at + width, *v = k + width, *gradient = pass.gradient + output_at;
  bool good = b.scores->run({.a = pass.qkv + block_at, .b = k, .c = t.scores}, t.scratch, t.thread);
  good = b.probability_gradient->run({.a = gradient, .b = v, .c = t.gradients}, t.scratch, t.thread) && good;
  kernels_.softmax_backward(
      {describe(pass, b, sequence, head, t.scores), t.gradients, pass.output + output_at, gradient, width, head_size_});
  good = b.value_gradient->run({.a = t.scores, .b = gradient, .c = t.value_gradient}, t.scratch, t.thread) && good;
  good = b.query_gradient->run({.a = t.gradients, .b = k, .c = pass.result + block_at}, t.scratch, t.thread) && good;
  return b.key_gradient->run({.a = t.gradients, .b = pass.qkv + block_at, .c = t.key_gradient}, t.scratch, t.thread) && good;
}

/// One head of one sequence. In fp32 key and value gradients are summed where they belong, in bf16 beside and rounded at the end.
template <class E>
bool Attention<E>::run_backward(const Pass& pass, std::int64_t sequence, std::int64_t head, const Temporaries& t) const {
  const std::int64_t width = heads_ * head_size_;
  E* key = pass.result + sequence * length_ * 3 * width + width + head * head_size_;
  E* value = key + width;
  Temporaries sums = t;
  if constexpr (sizeof(E) == sizeof(float)) {
    sums.key_gradient = key;
    sums.value_gradient = value;
  }
  bool good = true;
  for (const Block& b : blocks_) good = run_backward(pass, b, sequence, head, sums) && good;
  if constexpr (sizeof(E) != sizeof(float))
    for (std::int64_t i = 0; i < length_; ++i) {
      kernels_.narrow(t.key_gradient + i * head_size_, key + i * 3 * width, head_size_);
      kernels_.narrow(t.value_gradient + i * head_size_, value + i * 3 * width, head_size_);
    }
  return good;
}

namespace {

void require_good(bool good) { FLOTILLA_REQUIRE(good, ErrorKind::internal, "oneDNN failed in a product of attention"); }

}  // namespace

template <class E>
void Attention<E>::forward(const Task& task, const E* qkv, E* output, float* log_sum_exp, Workspace& workspace) {
  prepare(false);
  const Pass pass{task, dropout(setup_, task, DropSite::attention_probabilities), qkv, nullptr, output, nullptr, log_sum_exp};
  const std::int64_t rows = std::min<std::int64_t>(model::attention_block, length_), score_bytes = align_up({4 * rows * pitch_}, 64).count;
  float* scores = reinterpret_cast<float*>(workspace.take<std::byte>(score_bytes * setup_.threads));
  const std::int64_t pairs = task.sequences * heads_, tasks = pairs * static_cast<std::int64_t>(blocks_.size());
  std::atomic<bool> good{true};
#pragma omp parallel num_threads(setup_.threads)
  {
    const int thread = omp_get_thread_num();
    const Temporaries t{
        scores + thread * (score_bytes / 4), nullptr, nullptr, nullptr, products_.thread_scratch(thread, scratch_per_thread_), thread};
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = 0; i < tasks; ++i) {
      const std::int64_t pair = i % pairs;
      if (!run_forward(pass, blocks_[static_cast<std::size_t>(i / pairs)], pair / heads_, pair % heads_, t)) good = false;
    }
  }
  require_good(good);
}

template <class E>
void Attention<E>::backward(const Task& task, const E* qkv, const E* output, const float* log_sum_exp, const E* gradient, E* qkv_gradient,
                            Workspace& workspace) {
  prepare(true);
  const Pass pass{
      task, dropout(setup_, task, DropSite::attention_probabilities), qkv, output, qkv_gradient, gradient, const_cast<float*>(log_sum_exp)};
  constexpr bool sums_apart = sizeof(E) != sizeof(float);
  const std::int64_t rows = std::min<std::int64_t>(model::attention_block, length_);
  const std::int64_t scores = align_up({4 * rows * pitch_}, 64).count / 4,
                     sums = sums_apart ? align_up({4 * length_ * head_size_}, 64).count / 4 : 0;
  const std::int64_t per_thread = 2 * scores + 2 * sums;
  float* first = workspace.take<float>(per_thread * setup_.threads);
  const std::int64_t tasks = task.sequences * heads_;
  std::atomic<bool> good{true};
#pragma omp parallel num_threads(setup_.threads)
  {
    const int thread = omp_get_thread_num();
    float* mine = first + thread * per_thread;
    const Temporaries t{
        mine, mine + scores, mine + 2 * scores, mine + 2 * scores + sums, products_.thread_scratch(thread, scratch_per_thread_), thread};
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = 0; i < tasks; ++i)
      if (!run_backward(pass, i / heads_, i % heads_, t)) good = false;
  }
  require_good(good);
}

template class Attention<float>;
template class Attention<bfloat16>;

}  // namespace flotilla::compute::cpu
