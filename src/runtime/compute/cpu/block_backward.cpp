#include <cstring>

#include "operations.hpp"

namespace flotilla::compute::cpu {

using program::Role;

template <class E>
void Operations<E>::back_through_output_norm(const Frame& f, const OutputNorm& output, DropSite site, E* branch, Parameter bias,
                                             bool has_bias) {
  const E* gradient = f.at(Role::gradient);
  RowsBackward dropped, rows;
  dropped.drop = {gradient, branch, nullptr, d_, dropout(setup_, f.task, site), f.place()};
  if (dropped.drop.dropout.on) rows_backward(f, dropped);
  rows.norm = {dropped.drop.dropout.on ? branch : gradient,
               nullptr,
               output.raw,
               f.weight(output.weight),
               nullptr,
               output.stats,
               branch,
               nullptr,
               d_};
  rows.norm_weight = output.weight;
  rows.norm_bias = output.bias;
  rows.drop = {branch, branch, nullptr, d_, {}, f.place()};
  rows.bias = bias;
  rows.has_bias = has_bias;
  rows_backward(f, rows);
}

/// `gradient` of a block's output becomes that of the residual path, `masked` that of what the feed-forward's dropout got.
template <class E>
void Operations<E>::back_to_mlp(const Frame& f, E* masked) {
  if (setup_.model.output_norms)
    return back_through_output_norm(f, feed_forward_norm(f), DropSite::feed_forward, masked, Parameter::down_bias,
                                    setup_.model.feed_forward_bias);
  const model::BlockLayout& layout = f.block;
  E* gradient = f.at(Role::gradient);
  RowsBackward rows;
  if (!pre_norm_)
    rows.norm = {gradient,
                 nullptr,
                 f.saved(layout.end),
                 f.weight(Parameter::norm2_weight),
                 nullptr,
                 f.template saved<float>(layout.norm2_stats),
                 gradient,
                 nullptr,
                 d_};
  rows.drop = {gradient, masked, nullptr, d_, dropout(setup_, f.task, DropSite::feed_forward), f.place()};
  rows.norm_weight = Parameter::norm2_weight;
  rows.norm_bias = Parameter::norm2_bias;
  rows.bias = Parameter::down_bias;
  rows.has_bias = setup_.model.feed_forward_bias;
  rows_backward(f, rows);
  if (shares_ && !rows.drop.dropout.on) copy_rows(f, gradient, masked, d_);
}

/// `columns` has room for the gradient of `up`; that of `activated` is at the start of each row.
template <class E>
void Operations<E>::up_gradient(const Frame& f, Back down, E* columns, E* out) {
  ProductSpec to_activated = linear_input_gradient(setup_.precision, f.n, d_, columns_);
  to_activated.c_row = up_width_;
  input_gradient(f, model::Linear::down, to_activated, down, columns);
  activation_backward(f, columns, columns == out ? nullptr : out);
}

/// With relu nothing is in the place of what is kept; else its own input is, until the activation has been gone back through.
template <class E>
void Operations<E>::mlp_backward_input(const Frame& f) {
  E* kept_up = kept_up_gradient(f);
  const E* before_drop = output_gradient(f, kept_output_gradient(f), &Operations::back_to_mlp);
  E* columns = setup_.model.activation == model::Activation::relu ? kept_up : f.take(f.n * up_width_);
  up_gradient(f, back_into(f, model::Linear::down, before_drop), columns, kept_up);
  input_gradient(f, model::Linear::up, linear_input_gradient(setup_.precision, f.n, up_width_, d_),
                 back_into(f, model::Linear::up, kept_up), f.at(Role::partial));
}

template <class E>
void Operations<E>::activation_backward(const Frame& f, E* gradient, E* kept_gradient) {
  const model::Activation activation = setup_.model.activation;
  const E* kept = f.saved(activation == model::Activation::relu ? f.block.activated : f.block.up);
  const bool has_bias = setup_.model.feed_forward_bias;
  Workspace none{nullptr};
  const ColumnSums bias{has_bias ? f.workspace : none, setup_.threads, up_width_};
  const auto run = [&](float* sums, Rows rows) {
    switch (activation) {
      case model::Activation::gelu_tanh: return kernels_.gelu_backward({kept, gradient, sums, columns_}, rows);
      case model::Activation::gelu: return kernels_.gelu_exact_backward({kept, gradient, sums, columns_}, rows);
      case model::Activation::relu: return kernels_.relu_backward({kept, gradient, sums, columns_}, rows);
      case model::Activation::swiglu: return kernels_.swiglu_backward({kept, gradient, sums, columns_}, rows);
      case model::Activation::geglu: return kernels_.geglu_backward({kept, gradient, sums, columns_}, rows);
    }
  };
  for_shares(setup_.threads, f.n, [&](int share, Rows rows) {
    float* sums = has_bias ? bias.start(share) : nullptr;
    if (!kept_gradient) return run(sums, rows);
    for_pieces(rows, [&](Rows piece) {
      run(sums, piece);
      const std::int64_t at = piece.first * up_width_;
      std::memcpy(kept_gradient + at, gradient + at, sizeof(E) * static_cast<std::size_t>(piece.count() * up_width_));
    });
  });
  if (has_bias) bias.add_to(f.gradient(Parameter::up_bias), 0, up_width_);
}

/// With a parallel residual: the norm's branch, which came back in `partial`, joins the way to the input, in `gradient`. What `gradient`
/// was goes to attention's dropout site: `partial` has it then, and `masked`, which may be the same, where it is dropped.
template <class E>
void Operations<E>::back_beside_mlp(const Frame& f, E* masked) {
  E *gradient = f.at(Role::gradient), *partial = f.own(Role::partial, d_);
  RowsBackward branch, site;
  branch.norm_weight = Parameter::norm2_weight;
  branch.norm_bias = Parameter::norm2_bias;
  branch.norm = {partial,
                 nullptr,
                 f.at(Role::input),
                 f.weight(Parameter::norm2_weight),
                 gradient,
                 f.template saved<float>(f.block.norm2_stats),
                 partial,
                 nullptr,
                 d_};
  rows_backward(f, branch);
  for_shares(setup_.threads, f.rows,
             [&](int, Rows rows) { std::swap_ranges(gradient + rows.first * d_, gradient + rows.last * d_, partial + rows.first * d_); });
  site.drop = {partial, masked, nullptr, d_, dropout(setup_, f.task, DropSite::attention_output), f.place()};
  site.bias = Parameter::out_bias;
  site.has_bias = setup_.model.attention_output_bias;
  rows_backward(f, site);
}

/// Back through the norm before the feed-forward, or after the attention's sum: as back_to_mlp.
template <class E>
void Operations<E>::back_to_attention(const Frame& f, E* masked) {
  if (setup_.model.parallel_residual) return back_beside_mlp(f, masked);
  const model::BlockLayout& layout = f.block;
  E *gradient = f.at(Role::gradient), *partial = f.own(Role::partial, d_);
  RowsBackward rows;
  rows.norm_weight = pre_norm_ ? Parameter::norm2_weight : Parameter::norm1_weight;
  rows.norm_bias = pre_norm_ ? Parameter::norm2_bias : Parameter::norm1_bias;
  const float* stats = f.template saved<float>(pre_norm_ ? layout.norm2_stats : layout.norm1_stats);
  // Pre-norm: the norm's branch came back in `partial` and joins the residual path. Post-norm: both paths go through the norm.
  rows.norm = {pre_norm_ ? partial : gradient,
               pre_norm_ ? nullptr : partial,
               f.saved(layout.middle),
               f.weight(rows.norm_weight),
               pre_norm_ ? gradient : nullptr,
               stats,
               gradient,
               nullptr,
               d_};
  if (setup_.model.output_norms) {
    rows_backward(f, rows);
    return back_through_output_norm(f, attention_norm(f), DropSite::attention_output, masked, Parameter::out_bias,
                                    setup_.model.attention_output_bias);
  }
  // `masked` may be `partial`: rows are through with it when their mask is written.
  rows.drop = {gradient, masked, nullptr, d_, dropout(setup_, f.task, DropSite::attention_output), f.place()};
  rows.bias = Parameter::out_bias;
  rows.has_bias = setup_.model.attention_output_bias;
  rows_backward(f, rows);
  if (shares_ && !rows.drop.dropout.on) copy_rows(f, gradient, masked, d_);
}

/// Back through the output product and attention, to what qkv's product put out.
template <class E>
void Operations<E>::qkv_gradient(const Frame& f, Back out, E* gradient) {
  const model::BlockLayout& layout = f.block;
  E* attention_gradient = f.take(f.n * attention_width_);
  input_gradient(f, model::Linear::out, linear_input_gradient(setup_.precision, f.n, d_, attention_width_), out, attention_gradient);
  attention_.backward(f.task, f.saved(layout.qkv), f.saved(layout.attention_output), f.template saved<float>(layout.log_sum_exp),
                      attention_gradient, gradient, f.workspace);
  if (setup_.model.rotates()) rotate(f, gradient, true);
  if (setup_.model.query_key_norms) norm_heads_backward(f, gradient);
}

/// The weights' gradients are of this rank's heads alone (model::Tensor::summed).
template <class E>
void Operations<E>::norm_heads_backward(const Frame& f, E* gradient) {
  const HeadNorms<E> norms = head_norms(f, gradient);
  const ColumnSums sums{f.workspace, setup_.threads, 2 * norms.size};
  for_shares(setup_.threads, f.n, [&](int share, Rows rows) { kernels_.head_norms_backward({norms, sums.start(share)}, rows); });
  sums.add_to(f.gradient(Parameter::query_norm_weight), 0, norms.size);
  sums.add_to(f.gradient(Parameter::key_norm_weight), norms.size, norms.size);
}

template <class E>
void Operations<E>::block_begin_backward(const Frame& f) {
  const model::BlockLayout& layout = f.block;
  E* gradient = f.at(Role::gradient);
  const E* partial = f.own(Role::partial, d_);
  if (!pre_norm_) {
    for_shares(setup_.threads, f.rows, [&](int, Rows rows) {
      const std::int64_t at = rows.first * d_;
      kernels_.add(gradient + at, partial + at, gradient + at, rows.count() * d_);
    });
    return;
  }
  RowsBackward rows;
  rows.norm = {partial,
               nullptr,
               f.at(Role::input),
               f.weight(Parameter::norm1_weight),
               gradient,
               f.template saved<float>(layout.norm1_stats),
               gradient,
               nullptr,
               d_};
  rows.norm_weight = Parameter::norm1_weight;
  rows.norm_bias = Parameter::norm1_bias;
  rows_backward(f, rows);
}

#define FLOTILLA_INSTANTIATE(E)                                                                                          \
  template void Operations<E>::back_through_output_norm(const Frame&, const OutputNorm&, DropSite, E*, Parameter, bool); \
  template void Operations<E>::back_to_mlp(const Frame&, E*);                                                            \
  template void Operations<E>::up_gradient(const Frame&, Operations<E>::Back, E*, E*);                                   \
  template void Operations<E>::mlp_backward_input(const Frame&);                                                         \
  template void Operations<E>::activation_backward(const Frame&, E*, E*);                                                \
  template void Operations<E>::back_beside_mlp(const Frame&, E*);                                                        \
  template void Operations<E>::back_to_attention(const Frame&, E*);                                                      \
  template void Operations<E>::qkv_gradient(const Frame&, Operations<E>::Back, E*);                                      \
  template void Operations<E>::norm_heads_backward(const Frame&, E*);                                                    \
  template void Operations<E>::block_begin_backward(const Frame&);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cpu
