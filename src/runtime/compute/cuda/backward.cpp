#include "operations.hpp"

namespace flotilla::compute::cuda {

using program::Role;

/// As cpu::Operations::back_through_output_norm.
template <class E>
void CudaOperations<E>::back_through_output_norm(const Frame& f, const OutputNorm& output, DropSite site, E* branch, Parameter bias,
                                                 bool has_bias) {
  RowsBackward dropped, r;
  dropped.gradient = f.at(Role::gradient);
  dropped.masked = branch;
  dropped.drop = dropout(f, site);
  rows_backward(f, dropped);
  r.norms = true;
  r.norm_weight = output.weight;
  r.norm_bias = output.bias;
  r.gradient = dropped.drop.on ? branch : dropped.gradient;
  r.x = f.saved(output.raw);
  r.stats = f.template saved<float>(output.stats);
  r.out = branch;
  r.bias = bias;
  r.has_bias = has_bias;
  rows_backward(f, r);
}

template <class E>
void CudaOperations<E>::back_to_mlp(const Frame& f, E* masked) {
  if (setup_.model.output_norms)
    return back_through_output_norm(f, feed_forward_norm(f), DropSite::feed_forward, masked, Parameter::down_bias,
                                    setup_.model.feed_forward_bias);
  E* gradient = f.at(Role::gradient);
  RowsBackward r;
  r.gradient = r.out = gradient;
  r.norms = !pre_norm_;
  if (r.norms) {
    r.x = f.saved(f.block.end);
    r.stats = f.template saved<float>(f.block.norm2_stats);
  }
  r.norm_weight = Parameter::norm2_weight;
  r.norm_bias = Parameter::norm2_bias;
  r.bias = Parameter::down_bias;
  r.has_bias = setup_.model.feed_forward_bias;
  r.masked = masked;
  r.drop = dropout(f, DropSite::feed_forward);
  rows_backward(f, r);
  if (shares_ && !r.drop.on) copy_rows(f, gradient, masked, d_);
}

template <class E>
void CudaOperations<E>::up_gradient(const Frame& f, Back down, E* columns, E* out) {
  ProductSpec to_activated = linear_input_gradient(setup_.precision, f.n, d_, columns_);
  to_activated.c_row = up_width_;
  input_gradient(f, model::Linear::down, to_activated, down, columns);
  constexpr std::int64_t pack = 16 / sizeof(E), of_block = element_threads * pack;
  const bool gated = setup_.model.gated(), relu = setup_.model.activation == model::Activation::relu;
  const std::int64_t elements = gated ? f.n * ((columns_ + pack - 1) / pack) * pack : f.n * columns_;
  const gpu::LaunchShape launch{.blocks_x = (elements + of_block - 1) / of_block, .threads = element_threads};
  const E* saved = f.saved(relu ? f.block.activated : f.block.up);
  const PointwiseActivation kind = kernel_activation();
  if (gated)
    kernels_.gated_backward(stream_, launch, out, columns, saved, f.n, static_cast<int>(columns_), kind);
  else
    kernels_.activation_backward(stream_, launch, out, columns, saved, elements, kind);
  if (setup_.model.feed_forward_bias) add_bias_gradient(f, out, up_width_, Parameter::up_bias);
}

template <class E>
void CudaOperations<E>::mlp_backward_input(const Frame& f) {
  E* kept_up = kept_up_gradient(f);
  const E* before_drop = output_gradient(f, kept_output_gradient(f), &CudaOperations::back_to_mlp);
  up_gradient(f, back_into(f, model::Linear::down, before_drop), f.take(f.n * up_width_), kept_up);
  input_gradient(f, model::Linear::up, linear_input_gradient(setup_.precision, f.n, up_width_, d_),
                 back_into(f, model::Linear::up, kept_up), f.at(Role::partial));
}

/// As cpu::Operations::back_beside_mlp.
template <class E>
void CudaOperations<E>::back_beside_mlp(const Frame& f, E* masked) {
  E *gradient = f.at(Role::gradient), *partial = f.own(Role::partial, d_), *joined = f.take(f.rows * d_);
  RowsBackward branch, site;
  branch.norms = true;
  branch.norm_weight = Parameter::norm2_weight;
  branch.norm_bias = Parameter::norm2_bias;
  branch.stats = f.template saved<float>(f.block.norm2_stats);
  branch.gradient = partial;
  branch.x = f.at(Role::input);
  branch.residual = gradient;
  branch.out = joined;
  rows_backward(f, branch);
  site.gradient = site.out = gradient;
  site.masked = masked;
  site.bias = Parameter::out_bias;
  site.has_bias = setup_.model.attention_output_bias;
  site.drop = dropout(f, DropSite::attention_output);
  rows_backward(f, site);
  if (!site.drop.on) copy_rows(f, gradient, partial, d_);
  copy_rows(f, joined, gradient, d_);
}

template <class E>
void CudaOperations<E>::back_to_attention(const Frame& f, E* masked) {
  if (setup_.model.parallel_residual) return back_beside_mlp(f, masked);
  E *gradient = f.at(Role::gradient), *partial = f.own(Role::partial, d_);
  RowsBackward r;
  r.norms = true;
  r.norm_weight = pre_norm_ ? Parameter::norm2_weight : Parameter::norm1_weight;
  r.norm_bias = pre_norm_ ? Parameter::norm2_bias : Parameter::norm1_bias;
  r.stats = f.template saved<float>(pre_norm_ ? f.block.norm2_stats : f.block.norm1_stats);
  r.gradient = pre_norm_ ? partial : gradient;
  r.added = pre_norm_ ? nullptr : partial;
  r.x = f.saved(f.block.middle);
  r.residual = pre_norm_ ? gradient : nullptr;
  r.out = gradient;
  if (setup_.model.output_norms) {
    rows_backward(f, r);
    return back_through_output_norm(f, attention_norm(f), DropSite::attention_output, masked, Parameter::out_bias,
                                    setup_.model.attention_output_bias);
  }
  r.masked = masked;
  r.bias = Parameter::out_bias;
  r.has_bias = setup_.model.attention_output_bias;
  r.drop = dropout(f, DropSite::attention_output);
  rows_backward(f, r);
  if (shares_ && !r.drop.on) copy_rows(f, gradient, masked, d_);
}

template <class E>
void CudaOperations<E>::qkv_gradient(const Frame& f, Back out, E* gradient) {
  E* attention_gradient = f.take(f.n * attention_width_);
  float* dots = f.template take<float>(f.n * heads_);
  input_gradient(f, model::Linear::out, linear_input_gradient(setup_.precision, f.n, d_, attention_width_), out, attention_gradient);
  run_attention_backward(attention_shape(f), f.task.sequences,
                         {f.saved(f.block.qkv), f.saved(f.block.attention_output), f.template saved<float>(f.block.log_sum_exp),
                          attention_gradient, gradient, dots, f.starts()},
                         dropout(f, DropSite::attention_probabilities));
  if (setup_.model.rotates()) rotate(f, gradient, true);
  if (setup_.model.query_key_norms) norm_heads_backward(f, gradient);
}

/// The weights' gradients are of this rank's heads alone (model::Tensor::summed).
template <class E>
void CudaOperations<E>::norm_heads_backward(const Frame& f, E* gradient) {
  const std::int64_t blocks = std::min<std::int64_t>(f.n, most_row_blocks), size = setup_.model.head_size();
  float* partials = f.template take<float>(2 * blocks * size);
  kernels_.head_norms_backward(stream_, {.blocks_x = blocks, .threads = row_threads}, gradient, partials, f.saved(f.block.raw_heads),
                               f.weight(Parameter::query_norm_weight), f.weight(Parameter::key_norm_weight), static_cast<int>(f.n),
                               head_bands(), static_cast<float>(setup_.model.norm_epsilon));
  add_parts({f.gradient(Parameter::query_norm_weight), f.gradient(Parameter::key_norm_weight)}, 2, partials, static_cast<int>(blocks),
            size);
}

template <class E>
void CudaOperations<E>::block_begin_backward(const Frame& f) {
  E* gradient = f.at(Role::gradient);
  const E* partial = f.own(Role::partial, d_);
  if (!pre_norm_) {
    constexpr std::int64_t of_block = element_threads * 16 / sizeof(E);
    const std::int64_t elements = f.rows * d_;
    return kernels_.add(stream_, {.blocks_x = (elements + of_block - 1) / of_block, .threads = element_threads}, gradient, gradient,
                        partial, elements);
  }
  RowsBackward r;
  r.norms = true;
  r.norm_weight = Parameter::norm1_weight;
  r.norm_bias = Parameter::norm1_bias;
  r.gradient = partial;
  r.x = f.at(Role::input);
  r.residual = r.out = gradient;
  r.stats = f.template saved<float>(f.block.norm1_stats);
  rows_backward(f, r);
}

template <class E>
void CudaOperations<E>::logits_gradient(const Frame& f) {
  kernels_.head_gradient(stream_, {.blocks_x = f.n, .threads = row_threads}, f.at(Role::logits), f.template at<float>(Role::gathered_stats),
                         f.template at<std::int32_t>(Role::tokens), head_rows(f), f.task.loss_scale);
}

template <class E>
void CudaOperations<E>::head_end_backward(const Frame& f) {
  const model::HeadLayout layout = model::head_layout(setup_.model, f.shape);
  const model::Config& c = setup_.model;
  const E *input = f.at(Role::input), *to_normed = f.own(Role::partial, w_);
  E* gradient = f.at(Role::gradient);
  if (f.rows == 0) return;
  if (c.projects()) {
    E* before = c.final_norm ? f.take(f.shape.rows() * d_) : gradient;
    project_back(f, to_normed, c.final_norm ? f.saved(layout.normed) : input, before);
    to_normed = before;
  }
  if (!c.final_norm) return copy_rows(f, to_normed, gradient, d_);
  RowsBackward r;
  r.norms = true;
  r.norm_weight = Parameter::head_norm_weight;
  r.norm_bias = Parameter::head_norm_bias;
  r.gradient = to_normed;
  r.x = input;
  r.stats = f.template saved<float>(layout.norm_stats);
  r.out = gradient;
  rows_backward(f, r);
}

template <class E>
void CudaOperations<E>::embedding_norm_backward(const Frame& f, E* gradient) {
  const model::EmbeddingLayout layout = model::embedding_layout(setup_.model, f.shape);
  RowsBackward r;
  r.norms = true;
  r.norm_weight = Parameter::embedding_norm_weight;
  r.norm_bias = Parameter::embedding_norm_bias;
  r.gradient = r.out = gradient;
  r.x = f.saved(layout.words);
  r.stats = f.template saved<float>(layout.norm_stats);
  rows_backward(f, r);
}

template <class E>
E* CudaOperations<E>::before_embedding(const Frame& f, E* words) {
  E* gradient = f.at(Role::gradient);
  RowsBackward r;
  r.gradient = r.masked = gradient;
  r.drop = dropout(f, DropSite::embedding);
  rows_backward(f, r);
  if (float* positions = !setup_.model.has_position_table() ? nullptr : f.gradient(Parameter::position))
    kernels_.scatter_positions(stream_, {.blocks_x = setup_.length, .threads = row_threads}, positions + setup_.model.position_offset * d_,
                               gradient, f.starts(), f.task.sequences, setup_.length, static_cast<int>(f.first_row),
                               static_cast<int>(f.rows), static_cast<int>(d_));
  if (setup_.model.embedding_norm) embedding_norm_backward(f, gradient);
  if (!setup_.model.projects()) return gradient;
  if (f.rows == 0) return words;
  add_weight_gradient(f, linear_weight_gradient(setup_.precision, f.rows, d_, w_), gradient, f.at(Role::saved), Parameter::project_in);
  multiply(linear_input_gradient(setup_.precision, f.rows, d_, w_), {.a = gradient, .b = f.weight(Parameter::project_in), .c = words});
  return words;
}

template <class E>
void CudaOperations<E>::token_embedding_gradient(const Frame& f, const E* gradient) {
  float* token_embedding = f.gradient(Parameter::token_embedding);
  if (token_embedding == nullptr) return;
  const KernelHeadRows table = head_rows(f);
  kernels_.scatter_tokens(stream_, {.blocks_x = f.n, .threads = row_threads}, token_embedding, gradient,
                          f.template at<std::int32_t>(Role::tokens), static_cast<int>(f.n), setup_.length, table.first_token, table.width,
                          static_cast<int>(w_), embedding_scale_);
}

#define FLOTILLA_INSTANTIATE(E)                                                                                              \
  template void CudaOperations<E>::back_through_output_norm(const Frame&, const OutputNorm&, DropSite, E*, Parameter, bool); \
  template void CudaOperations<E>::back_to_mlp(const Frame&, E*);                                                            \
  template void CudaOperations<E>::mlp_backward_input(const Frame&);                                                         \
  template void CudaOperations<E>::back_beside_mlp(const Frame&, E*);                                                        \
  template void CudaOperations<E>::back_to_attention(const Frame&, E*);                                                      \
  template void CudaOperations<E>::embedding_norm_backward(const Frame&, E*);                                                \
  template void CudaOperations<E>::norm_heads_backward(const Frame&, E*);                                                    \
  template void CudaOperations<E>::block_begin_backward(const Frame&);                                                       \
  template void CudaOperations<E>::logits_gradient(const Frame&);                                                            \
  template void CudaOperations<E>::head_end_backward(const Frame&);                                                          \
  template E* CudaOperations<E>::before_embedding(const Frame&, E*);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cuda
