#include <utility>

#include "loss_runs.hpp"
#include "operations.hpp"

namespace flotilla::compute::cuda {

using program::Role;

template <class E>
void CudaOperations<E>::embedding_forward(const Frame& f) {
  const KernelHeadRows table = head_rows(f);  // the same cut of the vocabulary
  kernels_.gather_tokens(stream_, {.blocks_x = f.n, .threads = row_threads}, f.at(Role::partial), f.weight(Parameter::token_embedding),
                         f.template at<std::int32_t>(Role::tokens), setup_.length, table.first_token, table.width, static_cast<int>(w_),
                         embedding_scale_);
}

template <class E>
void CudaOperations<E>::embedding_end_forward(const Frame& f) {
  const E* words = f.own(Role::partial, w_);
  E* output = f.at(Role::output);
  if (f.rows == 0) return;
  const model::EmbeddingLayout layout = model::embedding_layout(setup_.model, f.shape);
  if (setup_.model.projects()) {
    E* kept = f.saved(layout.words);
    copy_rows(f, words, kept, w_);
    multiply(linear_forward(setup_.precision, f.rows, d_, w_), {.a = kept, .b = f.weight(Parameter::project_in), .c = output});
    words = output;
  }
  if (setup_.model.embedding_norm) {
    E* kept = f.saved(layout.words);
    copy_rows(f, words, kept, d_);
    rows_forward(f, norm(f, kept, output, layout.norm_stats, Parameter::embedding_norm_weight, Parameter::embedding_norm_bias));
    words = output;
  }
  RowsForward add;
  add.sum = output;
  add.partial = words;
  add.bias =
      !setup_.model.has_position_table() ? nullptr : f.weight(Parameter::position) + (setup_.model.position_offset + f.task.cached) * d_;
  add.bias_stride = static_cast<int>(d_);
  add.drop = dropout(f, DropSite::embedding);
  add.starts = f.starts();
  rows_forward(f, add);
}

template <class E>
const E* CudaOperations<E>::attention_input(const Frame& f) {
  const E* input = f.at(Role::input);
  if (!pre_norm_) return input;
  rows_forward(f, norm(f, input, f.saved(f.block.attention_input), f.block.norm1_stats, Parameter::norm1_weight, Parameter::norm1_bias));
  return f.saved(f.block.attention_input);
}

template <class E>
void CudaOperations<E>::attention_forward(const Frame& f) {
  E *qkv = f.saved(f.block.qkv), *output = f.saved(f.block.attention_output);
  const E* input = shares_ ? f.at(Role::partial) : attention_input(f);
  ProductSpec to_qkv = linear_forward(setup_.precision, f.n, qkv_width_, d_);
  to_qkv.bias = setup_.model.qkv_bias;
  run_linear(f, model::Linear::qkv, to_qkv, input, f.weight_if(to_qkv.bias, Parameter::qkv_bias), qkv);
  if (setup_.model.query_key_norms)
    kernels_.head_norms(stream_, {.blocks_x = f.n, .threads = row_threads}, qkv, f.saved(f.block.raw_heads),
                        f.weight(Parameter::query_norm_weight), f.weight(Parameter::key_norm_weight), head_bands(),
                        static_cast<float>(setup_.model.norm_epsilon));
  if (setup_.model.rotates()) rotate(f, qkv, false);
  const E* kv = qkv;
  AttentionShape shape = attention_shape(f);
  if (setup_.cache > 0) {
    append_keys(f, qkv);
    kv = f.at(Role::cache);
    in_cache(f, shape);
  }
  run_attention(shape, f.task.sequences,
                {.qkv = qkv, .output = output, .log_sum_exp = f.template saved<float>(f.block.log_sum_exp), .starts = f.starts()}, kv,
                dropout(f, DropSite::attention_probabilities));
  run_linear(f, model::Linear::out, linear_forward(setup_.precision, f.n, d_, attention_width_), output, nullptr, f.at(Role::partial));
}

/// Keys and values of these tokens to their places in the cache. A token's, or in a grouped qkv a group's, stand side by side in qkv:
/// so one copy moves all of a sequence.
template <class E>
void CudaOperations<E>::append_keys(const Frame& f, const E* qkv) {
  FLOTILLA_ASSERT(f.task.cached >= 0 && f.task.cached + setup_.length <= setup_.cache, f.task.cached, " tokens are cached, of ",
                  setup_.cache);
  const std::int64_t size = setup_.model.head_size(), pieces = setup_.model.grouped_qkv() ? groups_ : 1;
  const std::int64_t width = 2 * size * (groups_ / pieces), pitch = qkv_width_ / pieces, row = 2 * groups_ * size;
  const auto bytes = [](std::int64_t elements) { return Bytes{elements * static_cast<std::int64_t>(sizeof(E))}; };
  for (int sequence = 0; sequence < f.task.sequences; ++sequence) {
    const E* from = qkv + std::int64_t{sequence} * setup_.length * qkv_width_ + pitch - width;
    E* to = f.at(Role::cache) + (std::int64_t{sequence} * setup_.cache + f.task.cached) * row;
    stream_.copy_rows_on_device({reinterpret_cast<std::byte*>(to)}, bytes(width), {reinterpret_cast<std::byte*>(const_cast<E*>(from))},
                                bytes(pitch), bytes(width), setup_.length * pieces);
  }
}

/// Where append_keys puts them.
template <class E>
void CudaOperations<E>::in_cache(const Frame& f, AttentionShape& s) const {
  const int size = setup_.model.head_size(), groups = static_cast<int>(groups_);
  const bool grouped = setup_.model.grouped_qkv();
  s.places.first_key = 0;
  s.places.key_step = grouped ? 2 * size : size;
  s.places.value_offset = grouped ? size : groups * size;
  s.key_row = 2 * groups * size;
  s.key_rows = setup_.cache;
  s.cached = static_cast<int>(f.task.cached);
}

/// As cpu::Operations::rotate: a group's queries and key side by side in a grouped qkv, else all queries and then all keys.
template <class E>
void CudaOperations<E>::rotate(const Frame& f, E* qkv, bool back) {
  const int size = setup_.model.head_size(), queries = setup_.model.queries_per_group();
  const int turned = setup_.model.rotated_columns();
  const bool grouped = setup_.model.grouped_qkv();
  const std::int64_t bands = grouped ? groups_ : 1, heads = grouped ? queries + 1 : heads_ + groups_;
  const std::int64_t threads = f.n * heads * (turned / 2);
  const gpu::DeviceBuffer& table = setup_.model.turns_by_window(f.task.layer - 1) ? window_angles_ : angles_;
  const float* angles = reinterpret_cast<const float*>(table.data().address) + f.task.cached * turned;
  kernels_.rotate(stream_, {.blocks_x = (threads + element_threads - 1) / element_threads, .blocks_y = bands, .threads = element_threads},
                  qkv, angles, f.starts(), f.n, static_cast<int>(qkv_width_), (queries + 2) * size, size, static_cast<int>(heads),
                  back ? -turned : turned, setup_.length);
}

template <class E>
auto CudaOperations<E>::attention_norm(const Frame& f) const -> OutputNorm {
  return {f.block.raw_attention, f.block.raw_attention_stats, Parameter::attention_norm_weight, Parameter::attention_norm_bias};
}

template <class E>
auto CudaOperations<E>::feed_forward_norm(const Frame& f) const -> OutputNorm {
  return {f.block.raw_feed_forward, f.block.raw_feed_forward_stats, Parameter::feed_forward_norm_weight, Parameter::feed_forward_norm_bias};
}

template <class E>
void CudaOperations<E>::norm_output(const Frame& f, const OutputNorm& output, const E* bias) {
  E* partial = f.own(Role::partial, d_);
  RowsForward r = norm(f, nullptr, partial, output.stats, output.weight, output.bias);
  r.sum = f.saved(output.raw);
  r.partial = partial;
  r.bias = bias;
  rows_forward(f, r);
}

template <class E>
const E* CudaOperations<E>::mlp_input(const Frame& f) {
  const auto& stats = pre_norm_ ? f.block.norm2_stats : f.block.norm1_stats;
  RowsForward r =
      norm(f, f.at(Role::input), f.saved(f.block.ff_input), stats, pre_norm_ ? Parameter::norm2_weight : Parameter::norm1_weight,
           pre_norm_ ? Parameter::norm2_bias : Parameter::norm1_bias);
  E* const normed = r.y;
  const E* bias = f.weight_if(setup_.model.attention_output_bias, Parameter::out_bias);
  if (setup_.model.output_norms) norm_output(f, attention_norm(f), std::exchange(bias, nullptr));
  if (setup_.model.parallel_residual) {  // the norm is of the input, not of the sum
    rows_forward(f, r);
    r.weight = nullptr;
  }
  r.sum = f.saved(f.block.middle);
  r.partial = f.own(Role::partial, d_);
  r.bias = bias;
  r.drop = dropout(f, DropSite::attention_output);
  rows_forward(f, r);
  return normed;
}

template <class E>
void CudaOperations<E>::mlp_forward(const Frame& f) {
  const E* input = shares_ ? f.at(Role::partial) : mlp_input(f);
  ProductSpec to_columns = linear_forward(setup_.precision, f.n, up_width_, d_);
  to_columns.bias = setup_.model.feed_forward_bias;
  to_columns.relu = setup_.model.activation == model::Activation::relu;
  E* up = to_columns.relu ? f.saved(f.block.activated) : f.saved(f.block.up);
  run_linear(f, model::Linear::up, to_columns, input, f.weight_if(to_columns.bias, Parameter::up_bias), up);
  if (!to_columns.relu) activation(f);
  run_linear(f, model::Linear::down, linear_forward(setup_.precision, f.n, d_, columns_), f.saved(f.block.activated), nullptr,
             f.at(Role::partial));
}

template <class E>
PointwiseActivation CudaOperations<E>::kernel_activation() const {
  switch (setup_.model.activation) {
    case model::Activation::gelu: return PointwiseActivation::gelu;
    case model::Activation::relu: return PointwiseActivation::relu;
    case model::Activation::swiglu: return PointwiseActivation::silu;
    case model::Activation::gelu_tanh:
    case model::Activation::geglu: break;
  }
  return PointwiseActivation::gelu_tanh;
}

template <class E>
void CudaOperations<E>::activation(const Frame& f) {
  constexpr std::int64_t pack = 16 / sizeof(E), of_block = element_threads * pack;
  const bool gated = setup_.model.gated();
  const std::int64_t elements = gated ? f.n * ((columns_ + pack - 1) / pack) * pack : f.n * columns_;
  const gpu::LaunchShape launch{.blocks_x = (elements + of_block - 1) / of_block, .threads = element_threads};
  const PointwiseActivation kind = kernel_activation();
  if (gated)
    return kernels_.gated_forward(stream_, launch, f.saved(f.block.activated), f.saved(f.block.up), f.n, static_cast<int>(columns_), kind);
  kernels_.activation_forward(stream_, launch, f.saved(f.block.activated), f.saved(f.block.up), elements, kind);
}

template <class E>
void CudaOperations<E>::block_end_forward(const Frame& f) {
  E* output = f.at(Role::output);
  RowsForward r;
  if (!pre_norm_) r = norm(f, nullptr, output, f.block.norm2_stats, Parameter::norm2_weight, Parameter::norm2_bias);
  r.sum = pre_norm_ ? output : f.saved(f.block.end);
  r.residual = f.saved(pre_norm_ ? f.block.middle : f.block.ff_input);
  r.partial = f.own(Role::partial, d_);
  r.bias = f.weight_if(setup_.model.feed_forward_bias, Parameter::down_bias);
  if (setup_.model.output_norms) norm_output(f, feed_forward_norm(f), std::exchange(r.bias, nullptr));
  r.drop = dropout(f, DropSite::feed_forward);
  rows_forward(f, r);
}

template <class E>
void CudaOperations<E>::block_again(const Frame& f) {
  if (pre_norm_) attention_input(f);
  const auto& stats = pre_norm_ ? f.block.norm2_stats : f.block.norm1_stats;
  const E* sum = setup_.model.parallel_residual ? f.at(Role::input) : f.saved(f.block.middle);
  rows_forward(f, norm(f, sum, f.saved(f.block.ff_input), stats, pre_norm_ ? Parameter::norm2_weight : Parameter::norm1_weight,
                       pre_norm_ ? Parameter::norm2_bias : Parameter::norm1_bias));
  if (f.block.activated.again) activation(f);
}

template <class E>
const E* CudaOperations<E>::head_rows_forward(const Frame& f) {
  const model::HeadLayout layout = model::head_layout(setup_.model, f.shape);
  const E* input = f.at(Role::input);
  if (setup_.model.final_norm) {
    rows_forward(f, norm(f, input, f.saved(layout.normed), layout.norm_stats, Parameter::head_norm_weight, Parameter::head_norm_bias));
    input = f.saved(layout.normed);
  }
  if (!setup_.model.projects()) return input;
  E* projected = f.saved(layout.projected);
  if (f.rows > 0)
    multiply(linear_forward(setup_.precision, f.rows, w_, d_), {.a = input, .b = f.weight(Parameter::project_out), .c = projected});
  return projected;
}

template <class E>
void CudaOperations<E>::head_forward(const Frame& f) {
  if (!shares_) head_rows_forward(f);
  ProductSpec to_logits = linear_forward(setup_.precision, f.n, vocabulary_, w_);
  to_logits.c_row = head_pitch(f);
  multiply(to_logits, {.a = head_input(f), .b = f.weight(head_token_embedding_), .c = f.at(Role::logits)});
  kernels_.head_stats(stream_, {.blocks_x = f.n, .threads = row_threads}, f.template at<float>(Role::stats), f.at(Role::logits),
                      f.template at<std::int32_t>(Role::tokens), head_rows(f));
}

template <class E>
void CudaOperations<E>::head_loss(const Frame& f) {
  double* scalars = f.template at<double>(Role::scalars);
  for_loss_runs(f.task, [&](const LossRun& run) {
    kernels_.head_loss(stream_, {.threads = loss_threads}, scalars + run.loss, scalars + run.counted,
                       f.template at<float>(Role::gathered_stats), head_rows(f), run.first * setup_.length, run.last * setup_.length);
  });
}

#define FLOTILLA_INSTANTIATE(E)                                                            \
  template void CudaOperations<E>::embedding_forward(const Frame&);                        \
  template void CudaOperations<E>::embedding_end_forward(const Frame&);                    \
  template const E* CudaOperations<E>::attention_input(const Frame&);                      \
  template void CudaOperations<E>::attention_forward(const Frame&);                        \
  template void CudaOperations<E>::append_keys(const Frame&, const E*);                    \
  template void CudaOperations<E>::in_cache(const Frame&, AttentionShape&) const;          \
  template void CudaOperations<E>::rotate(const Frame&, E*, bool);                         \
  template auto CudaOperations<E>::attention_norm(const Frame&) const->OutputNorm;         \
  template auto CudaOperations<E>::feed_forward_norm(const Frame&) const->OutputNorm;      \
  template void CudaOperations<E>::norm_output(const Frame&, const OutputNorm&, const E*); \
  template PointwiseActivation CudaOperations<E>::kernel_activation() const;               \
  template const E* CudaOperations<E>::mlp_input(const Frame&);                            \
  template void CudaOperations<E>::mlp_forward(const Frame&);                              \
  template void CudaOperations<E>::activation(const Frame&);                               \
  template void CudaOperations<E>::block_end_forward(const Frame&);                        \
  template void CudaOperations<E>::block_again(const Frame&);                              \
  template const E* CudaOperations<E>::head_rows_forward(const Frame&);                    \
  template void CudaOperations<E>::head_forward(const Frame&);                             \
  template void CudaOperations<E>::head_loss(const Frame&);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cuda
