#include "operations.hpp"

#include <cstring>

namespace flotilla::compute::cpu {

template <class E>
Operations<E>::Operations(const Setup& setup)
    : LayerDimensions{setup},
      kernels_{kernels<E>()},
      products_{setup.threads},
      attention_{setup_, products_},
      angles_{rotary_angles(setup.model, std::max(setup.length, setup.cache))},
      window_angles_{rotary_angles(setup.model, std::max(setup.length, setup.cache), true)},
      embedding_scale_{embedding_scale(setup)} {}

template <class E>
void Operations<E>::run(const Task& task) {
  const ThreadCount threads{setup_.threads};
  const Frame frame{*this, task};
  dispatch(frame);
  FLOTILLA_ASSERT(frame.workspace.used() == model::workspace(setup_.model, frame.shape, task.operation, setup_.threads),
                  model::to_string(task.operation), " took ", frame.workspace.used().count, " bytes of workspace");
}

template <class E>
NormForward<E> Operations<E>::norm(const Frame& f, const E* x, E* y, float* stats, Parameter weight, Parameter bias) const {
  return {x, f.weight(weight), f.weight_if(!rms_, bias), y, stats, d_, static_cast<float>(setup_.model.norm_epsilon), norm_offset()};
}

template <class E>
void Operations<E>::normalize(const Frame& f, const NormForward<E>& norm) {
  for_shares(setup_.threads, f.rows, [&](int, Rows rows) { kernels_.norm_forward(norm, rows); });
}

template <class E>
void Operations<E>::copy(const Frame& f, const E* from, E* to, std::int64_t width) {
  for_shares(setup_.threads, f.n, [&](int, Rows rows) {
    const std::int64_t at = rows.first * width;
    std::memcpy(to + at, from + at, sizeof(E) * static_cast<std::size_t>(rows.count() * width));
  });
}

template <class E>
void Operations<E>::copy_rows(const Frame& f, const E* from, E* to, std::int64_t width) const {
  for_shares(setup_.threads, f.rows,
             [&](int, Rows rows) { std::copy_n(from + rows.first * width, rows.count() * width, to + rows.first * width); });
}

template <class E>
E* Operations<E>::masked(const Frame& f, E* gradient) const {
  E* apart = setup_.model.dropout > 0 || setup_.model.output_norms ? f.take(f.n * d_) : nullptr;
  return stands_apart(f) ? apart : gradient;
}

template <class E>
void Operations<E>::rows_backward(const Frame& f, RowsBackward work) {
  const bool has_norm = work.norm.x, has_site = work.drop.gradient;
  const bool has_bias = has_site && work.has_bias;
  Workspace none{nullptr};
  work.norm.rms = rms_;
  work.norm.offset = norm_offset();
  const ColumnSums norm_sums{has_norm ? f.workspace : none, setup_.threads, rms_ ? d_ : 2 * d_};
  const ColumnSums bias_sums{has_bias ? f.workspace : none, setup_.threads, d_};
  for_shares(setup_.threads, f.rows, [&](int share, Rows rows) {
    NormBackward<E> norm_work = work.norm;
    DropBackward<E> drop_work = work.drop;
    if (has_norm) norm_work.sums = norm_sums.start(share);
    if (has_bias) drop_work.sums = bias_sums.start(share);
    for_pieces(rows, [&](Rows piece) {
      if (has_norm) kernels_.norm_backward(norm_work, piece);
      if (has_site && drop_work.dropout.on) return kernels_.drop_backward(drop_work, piece);
      if (has_bias) kernels_.column_sums(drop_work.gradient, drop_work.sums, d_, piece);
    });
  });
  if (has_norm) norm_sums.add_to(f.gradient(work.norm_weight), 0, d_);
  if (has_norm && !rms_) norm_sums.add_to(f.gradient(work.norm_bias), d_, d_);
  if (has_bias) bias_sums.add_to(f.gradient(work.bias), 0, d_);
}

template <class E>
void Operations<E>::add_bias_gradient(const Frame& f, const E* gradient, std::int64_t width, Parameter bias) {
  const ColumnSums sums{f.workspace, setup_.threads, width};
  for_shares(setup_.threads, f.n, [&](int share, Rows rows) { kernels_.column_sums(gradient, sums.start(share), width, rows); });
  sums.add_to(f.gradient(bias), 0, width);
}

template class Operations<float>;
template class Operations<bfloat16>;
template class Operations<float16>;

}  // namespace flotilla::compute::cpu
