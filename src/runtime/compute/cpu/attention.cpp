#include "attention.hpp"

#include <atomic>
#include <cmath>

#include "flotilla/base/error.hpp"

namespace flotilla::compute::cpu {

template <class E>
Attention<E>::Attention(const Setup& setup, Products& products)
    : setup_{setup},
      products_{products},
      kernels_{kernels<E>()},
      layout_{setup},
      first_head_{model::share(setup.model.groups(), setup.tensor_parallel, setup.tensor_index).first * layout_.queries},
      length_{setup.length},
      pitch_{score_pitch(setup)},
      gradient_row_{sizeof(E) == sizeof(float) ? layout_.row : layout_.size} {
  for (const int window : attention_windows(setup)) kinds_.push_back({window, attention_specs(setup, window), {}, false});
}

template <class E>
Product* Attention<E>::prepare(const ProductSpec& spec) {
  Product& product = products_.per_thread(spec);
  scratch_per_thread_ = std::max(scratch_per_thread_, align_up({product.scratch_bytes()}, 64).count);
  return &product;
}

template <class E>
auto Attention<E>::forward_block(const AttentionSpecs& specs) -> Block {
  Block b;
  b.first_query = b.first_row = specs.first_query;
  b.rows = specs.rows;
  b.first_key = specs.first_key;
  b.keys = specs.keys;
  b.scores = prepare(specs.scores);
  b.values = prepare(specs.values);
  return b;
}

template <class E>
auto Attention<E>::whole_block(const AttentionSpecs& specs, bool backward) -> Block {
  Block b = forward_block(specs);
  if (!backward) return b;
  b.probability_gradient = prepare(specs.probability_gradient);
  b.query_gradient = prepare(specs.query_gradient);
  b.key_gradient = prepare(specs.key_gradient);
  b.value_gradient = prepare(specs.value_gradient);
  return b;
}

template <class E>
auto Attention<E>::narrowed(const Pass& pass, const Block& b, std::int64_t sequence) const -> const Block& {
  if (pass.starts == nullptr || b.narrower.empty()) return b;
  const std::int64_t unseen = pass.starts[sequence * length_ + b.first_query] - b.first_key;
  return unseen < model::attention_block ? b : b.narrower[static_cast<std::size_t>(unseen / model::attention_block - 1)];
}

template <class E>
auto Attention<E>::prepared(const Task& task, bool backward) -> const Kind& {
  Kind& kind = *std::ranges::find(kinds_, attention_window(setup_, task.layer - 1), &Kind::window);
  if (!kind.blocks.empty() && (kind.backward_ready || !backward)) return kind;
  kind.blocks.resize(kind.specs.size());
  for (std::size_t i = 0; i < kind.specs.size(); ++i) {
    kind.blocks[i] = whole_block(kind.specs[i], backward);
    for (const AttentionSpecs& narrower : narrower_specs(setup_, kind.specs[i]))
      kind.blocks[i].narrower.push_back(whole_block(narrower, backward));
  }
  kind.backward_ready = backward;
  products_.require_scratch(scratch_per_thread_ * setup_.threads);
  return kind;
}

template <class E>
auto Attention<E>::beside_queries(const E* qkv) const -> Keys {
  return {layout_.beside_queries(), qkv, length_ * layout_.row};
}

template <class E>
AttentionBlock Attention<E>::describe(const Pass& pass, const Block& b, std::int64_t sequence, std::int64_t head, float* scores) const {
  float* log_sum_exp = pass.log_sum_exp + (sequence * layout_.heads + head) * length_ + b.first_row;
  return {scores,
          pitch_,
          b.rows,
          b.first_query,
          b.first_key,
          b.keys,
          pass.window,
          static_cast<float>(setup_.model.score_scale()),
          setup_.model.alibi ? static_cast<float>(model::head_slope(static_cast<int>(first_head_ + head), setup_.model.heads)) : 0.0f,
          log_sum_exp,
          pass.dropout,
          static_cast<std::uint32_t>(pass.task.first_sequence + sequence),
          static_cast<std::uint32_t>(first_head_ + head),
          pass.starts == nullptr ? nullptr : pass.starts + sequence * length_ + b.first_row,
          static_cast<float>(setup_.model.score_cap)};
}

template <class E>
bool Attention<E>::run_forward(const Pass& pass, const Block& whole, std::int64_t sequence, std::int64_t head, const Temporaries& t) const {
  const Block& b = narrowed(pass, whole, sequence);
  const std::int64_t width = layout_.heads * layout_.size, group = layout_.group_of(head);
  const KeyPlaces& places = pass.keys.places;
  const E* queries = pass.qkv + (sequence * length_ + b.first_row) * layout_.row + layout_.query(head);
  const E* keys = pass.keys.first + sequence * pass.keys.sequence + b.first_key * places.row;
  E* output = pass.result + (sequence * length_ + b.first_row) * width + head * layout_.size;
  bool good = b.scores->run({.a = queries, .b = keys + places.key(group), .c = t.scores}, t.scratch, t.thread);
  kernels_.softmax(describe(pass, b, sequence, head, t.scores));
  return b.values->run({.a = t.scores, .b = keys + places.value(group), .c = output}, t.scratch, t.thread) && good;
}

template <class E>
bool Attention<E>::run_backward(const Pass& pass, const Block& whole, std::int64_t sequence, std::int64_t head,
                                const Temporaries& t) const {
  const Block& b = narrowed(pass, whole, sequence);
  const std::int64_t width = layout_.heads * layout_.size, group = layout_.group_of(head), begin = sequence * length_ * layout_.row;
  const std::int64_t queries = begin + b.first_query * layout_.row + layout_.query(head), keys = begin + b.first_key * layout_.row;
  const std::int64_t output_at = (sequence * length_ + b.first_query) * width + head * layout_.size;
  const E *k = pass.qkv + keys + layout_.key(group), *v = pass.qkv + keys + layout_.value(group), *gradient = pass.gradient + output_at;
  float *key_gradient = t.key_gradient + b.first_key * gradient_row_, *value_gradient = t.value_gradient + b.first_key * gradient_row_;
  bool good = b.scores->run({.a = pass.qkv + queries, .b = k, .c = t.scores}, t.scratch, t.thread);
  good = b.probability_gradient->run({.a = gradient, .b = v, .c = t.gradients}, t.scratch, t.thread) && good;
  kernels_.softmax_backward(
      {describe(pass, b, sequence, head, t.scores), t.gradients, pass.output + output_at, gradient, width, layout_.size});
  good = b.value_gradient->run({.a = t.scores, .b = gradient, .c = value_gradient}, t.scratch, t.thread) && good;
  good = b.query_gradient->run({.a = t.gradients, .b = k, .c = pass.result + queries}, t.scratch, t.thread) && good;
  return b.key_gradient->run({.a = t.gradients, .b = pass.qkv + queries, .c = key_gradient}, t.scratch, t.thread) && good;
}

/// One group of one sequence: its heads one after the other add to the gradients of the key and the value that they share. In fp32 these
/// are summed where they belong, in bf16 and fp16 beside and rounded at the end.
template <class E>
bool Attention<E>::run_backward(const Pass& pass, std::int64_t sequence, std::int64_t group, const Temporaries& t) const {
  E* rows = pass.result + sequence * length_ * layout_.row;
  E *key = rows + layout_.key(group), *value = rows + layout_.value(group);
  Temporaries sums = t;
  if constexpr (sizeof(E) == sizeof(float)) {
    sums.key_gradient = key;
    sums.value_gradient = value;
  }
  for (std::int64_t i = 0; i < length_; ++i) {
    std::fill_n(sums.key_gradient + i * gradient_row_, layout_.size, 0.0f);
    std::fill_n(sums.value_gradient + i * gradient_row_, layout_.size, 0.0f);
  }
  bool good = true;
  for (std::int64_t head = group * layout_.queries; head < (group + 1) * layout_.queries; ++head)
    for (const Block& b : pass.blocks) good = run_backward(pass, b, sequence, head, sums) && good;
  if constexpr (sizeof(E) != sizeof(float))
    for (std::int64_t i = 0; i < length_; ++i) {
      kernels_.narrow(t.key_gradient + i * layout_.size, key + i * layout_.row, layout_.size);
      kernels_.narrow(t.value_gradient + i * layout_.size, value + i * layout_.row, layout_.size);
    }
  return good;
}

namespace {

const std::int32_t* starts_of(const Task& task) { return task.operand<std::int32_t>(program::Role::document_starts); }

void require_good(bool good) { FLOTILLA_REQUIRE(good, ErrorKind::internal, "oneDNN failed in a GEMM of attention"); }

}  // namespace

template <class E>
void Attention<E>::forward(const Task& task, const E* qkv, E* output, float* log_sum_exp, Workspace& workspace) {
  const Kind& kind = prepared(task, false);
  const auto drops = dropout(setup_, task, DropSite::attention_probabilities);
  run_forward({task, kind.window, kind.blocks, drops, qkv, nullptr, output, nullptr, log_sum_exp, beside_queries(qkv), starts_of(task)},
              workspace);
}

template <class E>
void Attention<E>::forward_cached(const Task& task, const E* qkv, E* cache, E* output, float* log_sum_exp, Workspace& workspace) {
  FLOTILLA_ASSERT(task.cached >= 0 && task.cached + length_ <= setup_.cache, task.cached, " tokens are cached, of ", setup_.cache);
  append(task, qkv, cache);
  const int window = attention_window(setup_, task.layer - 1);
  Block block = forward_block(cached_attention_specs(setup_, task.cached, window));
  block.first_row = 0;
  products_.require_scratch(scratch_per_thread_ * setup_.threads);
  const KeyPlaces places = layout_.in_cache();
  run_forward({task,
               window,
               {&block, 1},
               Dropout{},
               qkv,
               nullptr,
               output,
               nullptr,
               log_sum_exp,
               {places, cache, setup_.cache * places.row},
               nullptr},
              workspace);
}

/// Keys and values of these tokens, behind those of the tokens before.
template <class E>
void Attention<E>::append(const Task& task, const E* qkv, E* cache) const {
  const KeyPlaces from = layout_.beside_queries(), to = layout_.in_cache();
  for_shares(setup_.threads, task.sequences * length_, [&](int, Rows rows) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const E* token = qkv + row * from.row;
      E* place = cache + (row / length_ * setup_.cache + task.cached + row % length_) * to.row;
      for (std::int64_t group = 0; group < layout_.groups; ++group) {
        std::copy_n(token + from.key(group), layout_.size, place + to.key(group));
        std::copy_n(token + from.value(group), layout_.size, place + to.value(group));
      }
    }
  });
}

template <class E>
void Attention<E>::run_forward(const Pass& pass, Workspace& workspace) {
  const std::int64_t rows = std::min<std::int64_t>(model::attention_block, length_), score_bytes = align_up({4 * rows * pitch_}, 64).count;
  float* scores = reinterpret_cast<float*>(workspace.take<std::byte>(score_bytes * setup_.threads));
  const std::int64_t heads = layout_.heads, pairs = pass.task.sequences * heads, tasks = pairs * std::ssize(pass.blocks);
  std::atomic<bool> good{true};
#pragma omp parallel num_threads(setup_.threads)
  {
    const int thread = omp_get_thread_num();
    const Temporaries t{
        scores + thread * (score_bytes / 4), nullptr, nullptr, nullptr, products_.thread_scratch(thread, scratch_per_thread_), thread};
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = 0; i < tasks; ++i) {
      const std::int64_t pair = i % pairs;
      if (!run_forward(pass, pass.blocks[static_cast<std::size_t>(i / pairs)], pair / heads, pair % heads, t)) good = false;
    }
  }
  require_good(good);
}

template <class E>
void Attention<E>::backward(const Task& task, const E* qkv, const E* output, const float* log_sum_exp, const E* gradient, E* qkv_gradient,
                            Workspace& workspace) {
  const Kind& kind = prepared(task, true);
  const Pass pass{task,
                  kind.window,
                  kind.blocks,
                  dropout(setup_, task, DropSite::attention_probabilities),
                  qkv,
                  output,
                  qkv_gradient,
                  gradient,
                  const_cast<float*>(log_sum_exp),
                  beside_queries(qkv),
                  starts_of(task)};
  constexpr bool sums_apart = sizeof(E) != sizeof(float);
  const std::int64_t rows = std::min<std::int64_t>(model::attention_block, length_);
  const std::int64_t scores = align_up({4 * rows * pitch_}, 64).count / 4,
                     sums = sums_apart ? align_up({4 * length_ * layout_.size}, 64).count / 4 : 0;
  const std::int64_t per_thread = 2 * scores + 2 * sums;
  float* first = workspace.take<float>(per_thread * setup_.threads);
  const std::int64_t tasks = task.sequences * layout_.groups;
  std::atomic<bool> good{true};
#pragma omp parallel num_threads(setup_.threads)
  {
    const int thread = omp_get_thread_num();
    float* mine = first + thread * per_thread;
    const Temporaries t{
        mine, mine + scores, mine + 2 * scores, mine + 2 * scores + sums, products_.thread_scratch(thread, scratch_per_thread_), thread};
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = 0; i < tasks; ++i)
      if (!run_backward(pass, i / layout_.groups, i % layout_.groups, t)) good = false;
  }
  require_good(good);
}

template class Attention<float>;
template class Attention<bfloat16>;
template class Attention<float16>;

}  // namespace flotilla::compute::cpu
