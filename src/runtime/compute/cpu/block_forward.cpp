#include <utility>

#include "operations.hpp"

namespace flotilla::compute::cpu {

using program::Role;

/// What qkv is computed from, of this rank's rows.
template <class E>
const E* Operations<E>::attention_input(const Frame& f) {
  const model::BlockLayout& layout = f.block;
  const E* input = f.at(Role::input);
  if (!pre_norm_) return input;
  E* normed = f.saved(layout.attention_input);
  normalize(f, norm(f, input, normed, f.template saved<float>(layout.norm1_stats), Parameter::norm1_weight, Parameter::norm1_bias));
  return normed;
}

template <class E>
void Operations<E>::attention_forward(const Frame& f) {
  const model::BlockLayout& layout = f.block;
  E *qkv = f.saved(layout.qkv), *output = f.saved(layout.attention_output);
  const E* input = shares_ ? f.at(Role::partial) : attention_input(f);
  ProductSpec to_qkv = linear_forward(setup_.precision, f.n, qkv_width_, d_);
  to_qkv.bias = setup_.model.qkv_bias;
  run_linear(f, model::Linear::qkv, to_qkv, input, f.weight_if(to_qkv.bias, Parameter::qkv_bias), qkv);
  if (setup_.model.query_key_norms) norm_heads(f, qkv);
  if (setup_.model.rotates()) rotate(f, qkv, false);
  float* log_sum_exp = f.template saved<float>(layout.log_sum_exp);
  if (setup_.cache > 0)
    attention_.forward_cached(f.task, qkv, f.at(Role::cache), output, log_sum_exp, f.workspace);
  else
    attention_.forward(f.task, qkv, output, log_sum_exp, f.workspace);
  run_linear(f, model::Linear::out, linear_forward(setup_.precision, f.n, d_, attention_width_), output, nullptr, f.at(Role::partial));
}

/// Queries and keys stand as rotate says.
template <class E>
HeadNorms<E> Operations<E>::head_norms(const Frame& f, E* qkv) const {
  const std::int64_t size = setup_.model.head_size(), queries = setup_.model.queries_per_group();
  const bool grouped = setup_.model.grouped_qkv();
  return {qkv,
          f.saved(f.block.raw_heads),
          f.weight(Parameter::query_norm_weight),
          f.weight(Parameter::key_norm_weight),
          qkv_width_,
          (queries + 2) * size,
          grouped ? groups_ : 1,
          grouped ? queries : heads_,
          grouped ? 1 : groups_,
          size,
          static_cast<float>(setup_.model.norm_epsilon),
          norm_offset()};
}

template <class E>
void Operations<E>::norm_heads(const Frame& f, E* qkv) {
  const HeadNorms<E> norms = head_norms(f, qkv);
  for_shares(setup_.threads, f.n, [&](int, Rows rows) { kernels_.head_norms(norms, rows); });
}

/// Queries and keys by their positions, or the first columns of them. In a grouped qkv a group's queries and key stand side by side; else
/// all queries and then all keys.
template <class E>
void Operations<E>::rotate(const Frame& f, E* qkv, bool back) {
  const std::int64_t size = setup_.model.head_size(), queries = setup_.model.queries_per_group();
  const std::int64_t turned = setup_.model.rotated_columns();
  const bool grouped = setup_.model.grouped_qkv();
  const auto& table = setup_.model.turns_by_window(f.task.layer - 1) ? window_angles_ : angles_;
  const float* angles = table.data() + f.task.cached * turned;
  const std::int64_t bands = grouped ? groups_ : 1, step = (queries + 2) * size, heads = grouped ? queries + 1 : heads_ + groups_;
  for_shares(setup_.threads, f.n, [&](int, Rows rows) {
    for (std::int64_t band = 0; band < bands; ++band)
      kernels_.rotate({qkv, qkv_width_, band * step, size, heads, turned, setup_.length, angles, back, f.starts()}, rows);
  });
}

template <class E>
auto Operations<E>::attention_norm(const Frame& f) const -> OutputNorm {
  const model::BlockLayout& layout = f.block;
  return {f.saved(layout.raw_attention), f.template saved<float>(layout.raw_attention_stats), Parameter::attention_norm_weight,
          Parameter::attention_norm_bias};
}

template <class E>
auto Operations<E>::feed_forward_norm(const Frame& f) const -> OutputNorm {
  const model::BlockLayout& layout = f.block;
  return {f.saved(layout.raw_feed_forward), f.template saved<float>(layout.raw_feed_forward_stats), Parameter::feed_forward_norm_weight,
          Parameter::feed_forward_norm_bias};
}

template <class E>
void Operations<E>::norm_output(const Frame& f, const OutputNorm& output, const E* bias) {
  E* partial = f.own(Role::partial, d_);
  const AddResidual<E> raw{nullptr, partial, bias, 0, output.raw, d_, {}, f.place()};
  const NormForward<E> normed = norm(f, output.raw, partial, output.stats, output.weight, output.bias);
  for_shares(setup_.threads, f.rows, [&](int, Rows rows) {
    for_pieces(rows, [&](Rows piece) {
      kernels_.add_residual(raw, piece);
      kernels_.norm_forward(normed, piece);
    });
  });
}

/// What the feed-forward is computed from, of this rank's rows.
template <class E>
const E* Operations<E>::mlp_input(const Frame& f) {
  const model::BlockLayout& layout = f.block;
  E *partial = f.own(Role::partial, d_), *middle = f.saved(layout.middle);
  const E* bias = f.weight_if(setup_.model.attention_output_bias, Parameter::out_bias);
  if (setup_.model.output_norms) norm_output(f, attention_norm(f), std::exchange(bias, nullptr));
  const AddResidual<E> sum{f.at(Role::input), partial, bias, 0, middle, d_, dropout(setup_, f.task, DropSite::attention_output), f.place()};
  const NormForward<E> normed = norm_of_middle(f, layout);
  for_shares(setup_.threads, f.rows, [&](int, Rows rows) {
    for_pieces(rows, [&](Rows piece) {
      kernels_.add_residual(sum, piece);
      kernels_.norm_forward(normed, piece);
    });
  });
  return f.saved(layout.ff_input);
}

template <class E>
void Operations<E>::mlp_forward(const Frame& f) {
  const model::BlockLayout& layout = f.block;
  activate(f, layout, shares_ ? f.at(Role::partial) : mlp_input(f));
  run_linear(f, model::Linear::down, linear_forward(setup_.precision, f.n, d_, columns_), f.saved(layout.activated), nullptr,
             f.at(Role::partial));
}

/// middle -> ff_input; with a parallel residual: input -> ff_input
template <class E>
NormForward<E> Operations<E>::norm_of_middle(const Frame& f, const model::BlockLayout& layout) const {
  E *middle = f.saved(layout.middle), *ff_input = f.saved(layout.ff_input);
  if (pre_norm_)
    return norm(f, setup_.model.parallel_residual ? f.at(Role::input) : middle, ff_input, f.template saved<float>(layout.norm2_stats),
                Parameter::norm2_weight, Parameter::norm2_bias);
  return norm(f, middle, ff_input, f.template saved<float>(layout.norm1_stats), Parameter::norm1_weight, Parameter::norm1_bias);
}

/// input -> up -> activated. ReLU rides on the product: its backward needs only its output.
template <class E>
void Operations<E>::activate(const Frame& f, const model::BlockLayout& layout, const E* input) {
  const model::Activation activation = setup_.model.activation;
  E* activated = f.saved(layout.activated);
  ProductSpec to_columns = linear_forward(setup_.precision, f.n, up_width_, d_);
  to_columns.bias = setup_.model.feed_forward_bias;
  to_columns.relu = activation == model::Activation::relu;
  E* up = to_columns.relu ? activated : f.saved(layout.up);
  run_linear(f, model::Linear::up, to_columns, input, f.weight_if(to_columns.bias, Parameter::up_bias), up);
  if (!to_columns.relu) this->activation(f, up, activated);
}

template <class E>
void Operations<E>::activation(const Frame& f, const E* up, E* activated) {
  const model::Activation activation = setup_.model.activation;
  for_shares(setup_.threads, f.n, [&](int, Rows rows) {
    if (activation == model::Activation::swiglu) return kernels_.swiglu({up, activated, columns_}, rows);
    if (activation == model::Activation::geglu) return kernels_.geglu({up, activated, columns_}, rows);
    const auto gelu = activation == model::Activation::gelu ? kernels_.gelu_exact : kernels_.gelu;
    gelu(up + rows.first * columns_, activated + rows.first * columns_, rows.count() * columns_);
  });
}

template <class E>
void Operations<E>::block_end_forward(const Frame& f) {
  const model::BlockLayout& layout = f.block;
  E* output = f.at(Role::output);
  E* sum = pre_norm_ ? output : f.saved(layout.end);
  const E* bias = f.weight_if(setup_.model.feed_forward_bias, Parameter::down_bias);
  if (setup_.model.output_norms) norm_output(f, feed_forward_norm(f), std::exchange(bias, nullptr));
  const AddResidual<E> add{f.saved(pre_norm_ ? layout.middle : layout.ff_input),
                           f.own(Role::partial, d_),
                           bias,
                           0,
                           sum,
                           d_,
                           dropout(setup_, f.task, DropSite::feed_forward),
                           f.place()};
  const NormForward<E> normed =
      pre_norm_ ? NormForward<E>{}
                : norm(f, sum, output, f.template saved<float>(layout.norm2_stats), Parameter::norm2_weight, Parameter::norm2_bias);
  for_shares(setup_.threads, f.rows, [&](int, Rows rows) {
    for_pieces(rows, [&](Rows piece) {
      kernels_.add_residual(add, piece);
      if (!pre_norm_) kernels_.norm_forward(normed, piece);
    });
  });
}

/// By the very calls that made them first, so to the same bits; norms' statistics come out as they are.
template <class E>
void Operations<E>::block_again(const Frame& f) {
  const model::BlockLayout& layout = f.block;
  if (pre_norm_)
    normalize(f, norm(f, f.at(Role::input), f.saved(layout.attention_input), f.template saved<float>(layout.norm1_stats),
                      Parameter::norm1_weight, Parameter::norm1_bias));
  normalize(f, norm_of_middle(f, layout));
  if (layout.activated.again) activation(f, f.saved(layout.up), f.saved(layout.activated));
}

#define FLOTILLA_INSTANTIATE(E)                                                                         \
  template const E* Operations<E>::attention_input(const Frame&);                                       \
  template void Operations<E>::attention_forward(const Frame&);                                         \
  template HeadNorms<E> Operations<E>::head_norms(const Frame&, E*) const;                              \
  template void Operations<E>::norm_heads(const Frame&, E*);                                            \
  template void Operations<E>::rotate(const Frame&, E*, bool);                                          \
  template const E* Operations<E>::mlp_input(const Frame&);                                             \
  template auto Operations<E>::attention_norm(const Frame&) const->OutputNorm;                          \
  template auto Operations<E>::feed_forward_norm(const Frame&) const->OutputNorm;                       \
  template void Operations<E>::norm_output(const Frame&, const OutputNorm&, const E*);                  \
  template void Operations<E>::mlp_forward(const Frame&);                                               \
  template void Operations<E>::activate(const Frame&, const model::BlockLayout&, const E*);             \
  template void Operations<E>::activation(const Frame&, const E*, E*);                                  \
  template NormForward<E> Operations<E>::norm_of_middle(const Frame&, const model::BlockLayout&) const; \
  template void Operations<E>::block_again(const Frame&);                                               \
  template void Operations<E>::block_end_forward(const Frame&);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cpu
